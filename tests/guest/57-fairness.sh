#!/bin/sh
# programs: memcg_lru
# installed: bash fio
# The memcg LRU's own test on version 2, on the multi-gen LRU too: one fio a tenant, memory.reclaim of the root again and again.
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }
export PATH=$PATH:/usr/bin
tenants=8 mib=16 rounds=10 ask=16
# As on a host: where a look each second finds most of what is used each quarter of a minute old, one tenant has all that a round asks for.
look=10s

test_that it_serves serve
# Each page is used four times before the first round; a processor is emulated, so that each job reads and writes as slowly.
ran() {
    before=$(out)
    (while sleep 5; do for n in $(seq 0 $((tenants - 1))); do echo "$n steal $(word $dir/memcg$n/memory.stat pgsteal) back $(word $dir/memcg$n/memory.stat workingset_refault_anon) anon $(word $dir/memcg$n/memory.stat anon) active $(word $dir/memcg$n/memory.stat active_anon)"; done >seen.now && mv seen.now seen; done) 2>/dev/null &
    bash /files/memcg_lru.sh $dir $tenants $mib $((mib * 1024 / 60)) 80 $rounds ${ask}m 6 >fair.out 2>fair.err || { cat fair.err; return 1; }
    echo $(($(out) - before)) >fair.written
    is "$(wc -l <fair.out) $(cat fair.err)" "$tenants "
}
# Pages of nothing but zeros are noted and not written (since Linux 6.12).
out() { awk '$1 == "pswpout" || $1 == "swpout_zero" { n += $2 } END { print n }' /proc/vmstat; }
test_that the_script_runs ran
cat seen
stolen=$(awk '{ sum += $2 } END { print sum }' fair.out) files=$(word $dir/memory.stat pgsteal_file)
# stddev / mean, of 1000; the square root by Newton: this awk has none.
deviation=$(awk '{ sum += $2; squares += $2 * $2 } END {
    mean = sum / NR; square = 1000000 * (squares / NR / mean / mean - 1); root = 1000
    for (n = 0; n < 60; n++) root = (root + square / root) / 2
    printf "%d", root }' fair.out)
echo "pgsteal $(awk '{ printf "%s ", $2 }' fair.out)= $stolen, $files of files; stddev/mean $deviation of 1000; asked $((rounds * ask * 256)), the kernel wrote $(cat fair.written); $(grep -E '^(pgscan|pgsteal)_(kswapd|direct) ' /proc/vmstat | tr '\n' ' ')"
test_that tenants_give_alike at_most stddev/mean $deviation 100
test_that as_much_is_taken_as_was_asked near pgsteal $stolen $((rounds * ask * 256)) 3
test_that as_much_is_written_as_was_taken near pgsteal $((stolen - files)) $(cat fair.written) 2
exit 0

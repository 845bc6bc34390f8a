#!/bin/sh
# real: all
# Real programs that share on version 2: a database, a pre-fork server and a compile under one wall; one of them protected; and the rule of working-set
# reporting's author over all three. By the kernel's figures, and each by its own: books, counts, the compile's output.
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }
disk 192 && cd $where
all=$groups/pagetide/all
compiling
sh compile.sh >compile.alone 2>compile.err
database
test_that a_database_is_made initialised
test_that it_serves serve
mkdir $dir/all
begin all/db "exec su -s /bin/sh nobody -c \"$server\""
filled() { up && pgbench_by -i -q -s 1; }
test_that a_database_is_inside filled
begin all/web "exec workers 4 24 1000"
web_ready() { grep -q ^ready web.out; }
test_that a_pre_fork_server_is_inside wait_for 60 web_ready
begin all/build "while :; do sh compile.sh >build.now 2>&1 && mv build.now build.last; done"
done=0
# works: some transactions, a whole compile that is right, and all workers.
works() {
    pgbench_by -n -c 2 -t 15 && done=$((done + 30)) && booked $done || return 1
    is "$(wc -w <$all/web/cgroup.procs)" 5 || return 1
    rm -f build.last
    wait_for 100 test -e build.last && cmp build.last compile.alone
}
# (What is counted in one test is lost with its subshell.)
counted() { works && echo $done >done; }
again() { done=$(cat done); counted; }
test_that all_work counted
alive() { is "$(awk '$1 == "oom_kill" { print $2 }' $all/memory.events)" 0; }

## One wall above them, of three quarters of what they have.
limit=$(($(cat $all/memory.current) * 3 / 4 / 4096 * 4096))
walled() { echo $limit >$dir/all/memory.max && wait_for 60 stands; }
stands() { is "$(cat $all/memory.max)" $limit; }
test_that a_wall_stands_around_all walled
sampled() {
    (while :; do cat $all/memory.current; sleep 0.1; done) >currents &
    sampler=$!
    again
    status=$?
    kill $sampler
    return $status
}
test_that all_work_in_it sampled
most=$(sort -n currents | tail -n 1)
echo "wall $limit, at most charged $most ($(wc -l <currents) samples); $(grep -E '^(pgscan|pgsteal)' $dir/all/memory.stat | head -n 2 | tr '\n' ' ')"
test_that no_more_is_charged at_most memory.current "$most" $((limit / 100 * 105))
test_that nobody_is_killed alive

## Low: the database keeps what it has while the others give.
lifted() { echo max >$dir/all/memory.max && wait_for 30 is_lifted; }
is_lifted() { is "$(cat $all/memory.max)" max; }
test_that the_wall_is_lifted lifted
test_that all_work_without_it again
kept() {
    echo 128m >$dir/all/db/memory.low && sleep 3
    before=$(cat $all/db/memory.swap.current) written=$(out)
    for step in 1 2 3 4; do echo 3m 2>/dev/null >$dir/all/memory.reclaim; done
    after=$(cat $all/db/memory.swap.current)
    # (By what the kernel wrote: what compilers had in swap is gone with them.)
    gave=$((($(out) - written) * 4096))
    echo "low: the database had $before bytes in swap, and $after; $gave were written" >&3
    at_most "swap of the database" $after $((before + 262144)) && at_least "what others gave" $gave 4000000
}
exec 3>&1
test_that who_is_low_keeps_it kept
echo 0 >$dir/all/db/memory.low
test_that all_work_then again

## The rule: what is labelled with the oldest bin is written to memory.reclaim; all stand still but the server and the compile.
# (Under emulation, beside a compile, a pass of the server's over what it uses takes seconds: the oldest bin is far from that.)
echo 12000 >$dir/node0/workingset_report/page_age_intervals
bytes() { awk -v from=$1 '/=/ && $1 >= from { split($2, a, "="); split($3, f, "="); n += a[2] + f[2] } END { printf "%d", n }' $dir/$2/memory.workingset.page_age; }
# Of the database: what is charged to it of users' memory, page cache too, and what it maps of programs' files, which are in memory for all here (a guest has no disk).
text() {
    for one in $(cat $group/cgroup.procs); do
        awk '/^[0-9a-f]+-/ { is = $6 ~ "^/(usr|lib|lib64|files|bin)/" } is && $1 == "Pss:" { sum += $2 } END { print sum * 1024 }' /proc/$one/smaps
    done | awk '{ sum += $1 } END { printf "%d", sum }'
}
user() { echo $(($(word $group/memory.stat anon) + $(word $group/memory.stat file) - $(word $group/memory.stat swapcached))); }
sums() {
    group=$all/$1
    [ $1 = web ] && has=$(all_rollups Pss) || has=$(($(user) + $(text)))
    near page_age "$(bytes 0 all/$1)" $has 2 1048576
}
# KiB of what its workers use that they would have to have back, each for itself: of mappings of 4 MiB and more. (A process has some 900 KiB besides
# that it does not use; and what its parent has by the same fork that one never touches: it stays told as swapped when they have it back.)
missing() {
    for one in $(grep -vx "$(cat $1.pid)" $all/$1/cgroup.procs); do
        awk '$1 == "Size:" { size = $2 } $1 == "Swap:" && size >= 4096 { sum += $2 } END { print sum + 0 }' /proc/$one/smaps
    done | awk '{ sum += $1 } END { print sum }'
}
for one in db web; do
    group=$all/$one
    echo "$one: page_age $(bytes 0 all/$one), charged of users' memory $(user), of programs' files $(text)"
    test_that page_age_of_${one}_sums_to_what_it_has wait_for 30 sums $one
done
cold() { bytes 18446744073709551615 all/$1; }
is_cold() { at_least "cold of db" "$(cold db)" 4000000; }
test_that the_database_grows_cold wait_for 60 is_cold
ruled() {
    first=$(cat $all/db/memory.current)
    for round in 1 2 3; do
        for one in db web build; do echo "$(cold $one)" 2>/dev/null >$dir/all/$one/memory.reclaim; done
        sleep 12
    done
    echo "the rule: charge of the database $first, then $(cat $all/db/memory.current); the server misses $(missing web) KiB" >&3
    at_most "charge of the database" "$(cat $all/db/memory.current)" $((first / 4 * 3)) && at_most "KiB in use and in swap" "$(missing web)" 4096
}
test_that what_is_cold_leaves ruled
test_that all_work_at_the_end again
test_that nobody_was_killed alive
kill -INT $(cat db.pid)
cd /
exit 0

#!/bin/sh
# One report over a group with a process of each kind of memory: what it says of each process and of all
# of them, beside what the kernel says. In the short part: see 19-commands.sh.
. /suite/lib

new_group kinds
kinds="anon thp high protnone file cow memfd zero hugezero hugetlb poison guard"
echo 8 >/proc/sys/vm/nr_hugepages
# Files are on a disk, so that they are not shared memory.
[ "$GUEST_ZRAM_MIB" = 0 ] || disk
for kind in $kinds; do
    if start $kind 8; then
        eval "pid_$kind=$pid"
    else
        skip "$kind" "$(cat $kind.out)"
    fi
done
# Page cache that nobody maps.
sh -c "echo 0 >$group/cgroup.procs; head -c 4194304 /dev/urandom >${where:-.}/cache"

report --cgroup $group --for 2s --age-every 1s
status=$?
now=$(cat $group/memory.current)

# A look that takes longer than the interval leaves one out: three at most, and one after the first.
worked() {
    is $status 0 && is "$(field age_source)" page-tables && is "$(field age_grain)" page && at_least walks "$(field walks)" 2 && at_most walks "$(field walks)" 3
}
# What a report says of a process against its Rss. A kind that this kernel lacks was skipped above.
as_rss() { near "mapped_bytes of $1" "$(of $2 mapped_bytes)" "$(rollup $2 Rss)"; }
bins_add_up() { is $(($(aged 0) + $(field unknown_age_bytes))) "$(field resident_bytes)"; }
# Each frame once: the program's own pages are the same in all, and in the runner's other processes none.
resident() { near resident_bytes "$(field resident_bytes)" "$(all_rollups Pss)"; }
# It is not asked again while the last answer took longer than a hundredth of the time since.
says() { is "$(field pss_bytes)" null >/dev/null || near pss_bytes "$(field pss_bytes)" "$(all_rollups Pss)" 0 65536; }
# The kernel charges 64 pages ahead, and gives them back at any time: between our reading and this one, too.
charged() { near charged_bytes "$(field charged_bytes)" $now 1 262144; }
# The kernel sums its counters lazily: 64 pages a processor.
kernel_memory() { near kernel_bytes "$(field kernel_bytes)" "$(stat_of kernel)" 2 524288; }
unmapped() { at_least unmapped_cache_bytes "$(field unmapped_cache_bytes)" 4000000; }
peak() { near resident_peak_bytes "$(field resident_peak_bytes)" "$(cat $group/memory.peak)"; }
on_disk() { is "${where:-none}" none || at_least "file_bytes" "$(sum_of file_bytes)" 12000000; }
pool() { is "$(field hugetlb_bytes)" 8388608; }

test_that report_reads_page_tables worked
for kind in $kinds; do
    eval "pid=\$pid_$kind"
    [ -z "$pid" ] || test_that "mapped_is_rss_$kind" as_rss $kind $pid
done
test_that bins_and_unknown_are_resident bins_add_up
# The huge zero page is no memory either, but its entry looks like one of a huge page.
test_that resident_is_pss resident
test_that kernel_says_pss says
test_that charged_is_memory_current charged
test_that kernel_memory_is_told kernel_memory
test_that unmapped_cache_is_told unmapped
if [ -e $group/memory.peak ]; then
    test_that peak_is_memory_peak peak
fi
test_that hugetlb_is_apart pool
test_that pages_of_files_are_told_apart on_disk
notes

kill_group
where=
new_group forked
start forked 16
report $pid --for 2s --age-every 1s
status=$?
once() { worked && near resident_bytes "$(field resident_bytes)" "$(all_rollups Pss)"; }
# Filled by one and mapped by five: 16 MiB that each has a quarter of for itself, and 16 MiB shared.
known() { at_least resident_bytes "$(field resident_bytes)" $((36 << 20)) && at_most resident_bytes "$(field resident_bytes)" $((58 << 20)); }
own_group() { near charged_bytes "$(field charged_bytes)" "$(cat $group/memory.current)" 1 262144; }
test_that what_children_share_is_counted_once once
test_that forked_sums_are_plausible known
test_that the_group_of_a_pid_is_found own_group
kill_group

# A group's processes are those of the groups below it, too.
new_group above
above=$group
echo +memory >$above/cgroup.subtree_control
for name in one two; do
    new_group above/$name
    start anon 4
done
group=$above
report --cgroup $group --for 1s --age-every 1s
status=$?
below() { is $status 0 && is "$(grep -c '"command": "mem anon 4"' report.json)" 2 && charged; }
now=$(cat $group/memory.current)
test_that groups_below_are_counted below
echo 1 >$above/cgroup.kill
echo 0 >/proc/sys/vm/nr_hugepages
exit 0

#!/bin/sh
# A program that needs twice its group's limit, so that the kernel swaps without end, while it is watched:
# nothing breaks, its memory keeps its contents (`mem` ends with 99 otherwise), and the sums stay plausible.
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }
new_group pressure
echo 24M >$group/memory.max
start sweep 48
swap_io() { awk '/^pswp(in|out)/ { printf "%s %d  ", $1, $2 }' /proc/vmstat; }
before=$(swap_io)
report --cgroup $group --for 10s --age-every 500ms
status=$?
echo "before: $before after: $(swap_io)"
echo "evicted_pages $(field evicted_pages), refaulted_pages $(field refaulted_pages), resident $(field resident_bytes), swapped $(field swapped_bytes)"
notes
all=$((48 << 20))
plausible() {
    # A page that moved while it was read may be seen twice or never.
    near "resident and swapped" $(($(field resident_bytes) + $(field swapped_bytes))) $all 5 1048576 &&
        at_most resident_bytes "$(field resident_bytes)" $(((24 << 20) + 1048576)) &&
        at_most swapped_bytes "$(field swapped_bytes)" $all
}
# Counted by what looks see of all entries together: far less than the kernel's pswpout if pages come and go.
counted() { at_least evicted_pages "$(field evicted_pages)" 1000; }
test_that report_under_pressure is $status/$(field age_source) 0/page-tables
test_that sums_under_pressure plausible
test_that evictions_are_counted counted
test_that pressure_is_told at_least pressure_some_avg10 "$(field pressure_some_avg10)" 1
test_that the_program_lives kill -0 $pid
test_that nothing_was_killed is "$(awk '$1 == "oom_kill" { print $2 }' $group/memory.events)" 0

# A watcher with little memory for itself, under the same limit as the program.
own_limit() {
    (
        echo 0 >$group/cgroup.procs
        report $pid --for 3s --age-every 500ms
    ) && is "$(field age_source)" page-tables && kill -0 $pid
}
test_that a_watcher_in_the_same_group own_limit
kill_group

# The kernel's reclaim clears accessed bits too (the multi-gen LRU by walks of whole tables): how much of what
# is touched each 500 ms is still called young while it reclaims from the same group is printed.
new_group reclaimed
echo 40M >$group/memory.max
start ages 16 500 flush && hot=$pid
base=$(($(rollup $hot Rss) - (16 << 20) - 262144))
start sweep 64
report --cgroup $group --for 12s --age-every 1s --max-wait 900ms
status=$?
test_that report_of_a_hot_one_under_pressure is $status 0
echo "mapped $(of $hot mapped_bytes), own $base, swapped $(of $hot swapped_bytes), older than 10 s $(of $hot older_than_10s_bytes), unknown $(of $hot unknown_age_bytes); 8 MiB of 16 are touched each 500 ms"
notes
kill_group
exit 0

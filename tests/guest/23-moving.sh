#!/bin/sh
# Pages that move and tables that come and go while they are read: compaction, memory given back and mapped
# anew, processes by the dozen. Sums stay within 1 %.
. /suite/lib

compact() { echo 1 >/proc/sys/vm/compact_memory; }
moved() { awk '$1 == "pgmigrate_success" { print $2 }' /proc/vmstat; }

new_group moving
start frag 96 && frag=$pid
start ages 16 200 && busy=$pid
before=$(moved)
(while compact; do sleep 0.1; done) & compacting=$!
report --cgroup $group --for 6s --age-every 200ms
status=$?
kill $compacting
echo "moved $(($(moved) - before)) pages"
sums() { is $status 0 && near resident_bytes "$(field resident_bytes)" "$(all_rollups Pss)"; }
test_that sums_while_pages_move sums
test_that pages_moved at_least pgmigrate_success $(($(moved) - before)) 100
notes
kill_group

# A process that sleeps while its pages are moved away, and another that gets the frames: two processes, no
# frame of both.
new_group sleeper
start frag 96 && frag=$pid
before=$(moved)
report --cgroup $group --for 10s --age-every 1s & reporting=$!
sleep 2
compact
start quick 500
moved=$(($(moved) - before))
wait $reporting
status=$?
echo "moved $moved pages of one that sleeps"
test_that sums_when_a_sleepers_pages_moved sums
kill_group

# A move is no access, but the books know frames: an old page that moved is young again. How many do depends on
# what the compaction chooses, so it is printed. One that is awake, in what another one left.
new_group aged
start frag 96 && frag=$pid
start ages 64 500
kill $frag
before=$(moved)
report --cgroup $group --for 14s --age-every 1s --max-wait 900ms & reporting=$!
sleep 7
compact
wait $reporting
status=$?
old=$(of $pid older_than_10s_bytes)
moved=$(($(moved) - before))
echo "moved $moved pages of 8192 old and 8192 young ones; $((old >> 20)) MiB of 32 are older than 10 s"
test_that no_age_is_made_older_by_a_move at_most older_than_10s_bytes $old $((33 << 20))
kill_group

# As above where the kernel merges a sleeper's equal pages: 8 MiB become some frames, its Rss stays.
new_group merged
start ksm 8
report --cgroup $group --for 8s --age-every 1s & reporting=$!
sleep 2
ksm=/sys/kernel/mm/ksm
echo 20000 >$ksm/pages_to_scan
echo 1 >$ksm/run
wait $reporting
status=$?
echo "merged $(cat $ksm/pages_sharing) pages"
merged() { is $status 0 && near resident_bytes "$(field resident_bytes)" "$(all_rollups Pss)" 1 65536; }
test_that sums_when_a_sleepers_pages_are_merged merged
report --cgroup $group --for 1s --age-every 1s
status=$?
test_that sums_of_merged_pages merged
test_that pages_were_merged at_least pages_sharing "$(cat $ksm/pages_sharing)" 1500
echo 2 >$ksm/run
kill_group

# Tables that are freed and built while they are read.
new_group churn
start churn 16 5
one=$pid
start churn 16 7
report --cgroup $group --for 5s --age-every 100ms
status=$?
# It may be read between being given back and being filled.
at_rest() { is $status 0 && at_most resident_bytes "$(field resident_bytes)" $((34 << 20)); }
test_that tables_that_come_and_go at_rest
test_that the_first_lives kill -0 $one
test_that the_second_lives kill -0 $pid
notes
kill_group

new_group crowd
start anon 4
sh -c "echo 0 >$group/cgroup.procs; while :; do mem zero 1 >/dev/null & busybox true; busybox true; kill \$!; done" 2>/dev/null &
report --cgroup $group --for 5s --age-every 200ms
status=$?
test_that processes_that_come_and_go is $status 0
test_that their_ends_are_counted at_least processes "$(awk '/^  "ended"/ { inside = 1 } inside && /"processes"/ { print $2 + 0; exit }' report.json)" 20
notes
kill_group
exit 0

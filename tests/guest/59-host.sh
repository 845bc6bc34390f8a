#!/bin/sh
# programs: workers
# The host's own groups on version 2, with a pre-fork server and another process in them: followed by themselves, told as the kernel has them, and
# reclaimed from and limited where that is allowed. And a process that runs already and is moved into a tenant.
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }

host=$dir/host/h
new_group h
start kept 24
kept=$pid
sh -c "echo 0 >$group/cgroup.procs; exec workers 3 16 1000" >workers.out 2>&1 &
workers=$!
is_ready() { grep -q ^ready workers.out; }
test_that a_server_is_in_a_group_of_the_host wait_for 60 is_ready

test_that it_serves serve
sorted() { sort -n $1 | tr '\n' ' '; }
pids() { is "$(sorted $host/cgroup.procs)" "$(sorted $group/cgroup.procs)" && is "$(wc -l <$host/cgroup.procs)" 5; }
test_that the_group_is_found wait_for 30 pids
# Each page once, as Pss of all has it.
sizes() { near resident "$(($(word $host/memory.stat anon) + $(word $host/memory.stat file)))" "$(all_rollups Pss)" 2 1048576; }
test_that its_pages_are_known wait_for 60 sizes
current() { near current "$(cat $host/memory.current)" "$(cat $group/memory.current)" 1 131072; }
test_that its_charge_is_the_kernels current
refused() {
    for file in memory.reclaim memory.max memory.low; do
        echo 8m 2>refused.err >$host/$file && { echo "$file was taken"; return 1; }
    done
    is "$(cat $group/memory.max) $(cat $group/memory.low)" "max 0"
}
test_that nothing_may_be_changed refused

## Groups come and go, and processes with them.
later() {
    mkdir $groups/later && sh -c "echo 0 >$groups/later/cgroup.procs; exec sleep 100" &
    wait_for 30 has_one
}
has_one() { is "$(wc -l <$dir/host/later/cgroup.procs)" 1; }
test_that a_later_one_is_found later
left() { echo 1 >$groups/later/cgroup.kill; wait_for 20 rmdir $groups/later && wait_for 30 is_gone; }
is_gone() { ! [ -e $dir/host/later ]; }
test_that it_is_gone_with_the_group left

## Where they may be changed.
test_that it_ends stopped
test_that it_manages_the_host serve --manage-host
test_that its_pages_are_known_again wait_for 60 sizes
in_swap() { echo $(($(status $kept VmSwap) * 1024)); }
reclaimed() {
    asks host/h 8 || return 1
    near swapped "$(cat $host/memory.swap.current)" "$(cat $group/memory.swap.current)" 1 65536 && at_least "memory.swap.current" "$(cat $group/memory.swap.current)" 7000000
}
test_that it_gives_what_is_asked_for reclaimed
echo "swapped: ours $(cat $host/memory.swap.current), the kernel's $(cat $group/memory.swap.current), of who is idle $(in_swap)"
idle() { at_least "VmSwap of who is idle" "$(in_swap)" 6000000; }
test_that who_is_idle_gave_most idle
limited() { echo 36m >$host/memory.max && wait_for 60 held; }
held() { is "$(cat $group/memory.max)" 37748736 && at_most current "$(cat $group/memory.current)" 37748736; }
test_that it_is_limited limited
alive() { is "$(word $group/memory.events oom_kill)" 0 && kill -0 $workers && is "$(wc -l <$group/cgroup.procs)" 5; }
test_that nobody_was_killed alive
right() { kill -USR1 $kept && wait_for 60 grep -q right kept.out; }
test_that all_of_it_is_right right

## Who runs already brings its pages; what they are charged to stays as it was.
moved() { mkdir $dir/t && echo $kept >$dir/t/cgroup.procs && is "$(cat $groups/pagetide/t/cgroup.procs)" $kept && wait_for 30 brought; }
brought() { near anon "$(word $dir/t/memory.stat anon)" "$(($(status $kept RssAnon) * 1024))" 2 131072; }
test_that it_is_moved_with_its_pages moved
gives() { before=$(in_swap); asks t 4 && at_least "more in swap" $(($(in_swap) - before)) 4000000; }
touch_all() { echo max >$host/memory.max && kill -USR1 $kept && wait_for 60 all_in; }
all_in() { at_most VmSwap "$(in_swap)" 65536; }
test_that all_of_it_is_in_memory_again touch_all
test_that it_gives_there gives
kill -9 $kept $workers
exit 0

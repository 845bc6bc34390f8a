#!/bin/sh
# Cold memory leaves and comes back on version 2, on the multi-gen LRU too: the kernel's figures beside ours.
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }

over() { [ "$(status $pid VmSwap)" -ge $1 ] || { echo "VmSwap $(status $pid VmSwap) KiB"; return 1; }; }
stat_word() { pagetide stat $pid | awk -v name="$1" '$1 == name { print $2 }'; }

## By age: half of 32 MiB is never touched again.
begin_age() { managed --evict-older-than 3s --every 1s --age-every 1s -- mem ages 32 100; }
test_that a_program_runs_by_age begin_age
pid=$(cat run.pid)
test_that its_cold_half_leaves wait_for 60 over 14000
hot_stays() { at_most VmSwap "$(status $pid VmSwap)" 20000; }
test_that its_hot_half_stays hot_stays
echo "VmSwap $(status $pid VmSwap) VmRSS $(status $pid VmRSS) KiB"
stop
# (Its policy tells the same figure once more.)
counted() { near evicted_pages "$(field evicted_pages run.json | head -n 1)" 4096 40; }
test_that evicted_is_about_that counted

## memory.max: the wall is the kernel's, its peak is not above it, and swap is what memory.stat says.
begin_max() { managed --memory-max 32M -- mem anon 48; }
test_that a_program_runs_below_its_size begin_max
pid=$(cat run.pid)
test_that the_rest_is_in_swap wait_for 60 over 14000
dir=$(wall_of)
test_that the_wall_is_there is "$(cat $dir/memory.max)" 33554432
below() { at_most memory.current "$(cat $dir/memory.current)" 33554432; }
test_that usage_is_below below
peak() { at_most memory.peak "$(cat $dir/memory.peak)" 33554432; }
[ -e $dir/memory.peak ] && test_that its_peak_is_below peak
alive_all() { is "$(awk '$1 == "oom_kill" { print $2 }' $dir/memory.events)" 0; }
test_that nothing_was_killed alive_all
anon_as_kernel() { near anon "$(stat_word anon)" "$(awk '$1 == "anon" { print $2 }' $dir/memory.stat)" 5 1048576; }
test_that stat_tells_anon_as_memory_stat anon_as_kernel
swapped_as_kernel() { near swapped "$(stat_word swapped)" "$(cat $dir/memory.swap.current)" 5 1048576; }
test_that stat_tells_swap_as_the_group swapped_as_kernel
echo "stat: anon $(stat_word anon) swapped $(stat_word swapped); kernel: $(grep '^anon ' $dir/memory.stat) swap $(cat $dir/memory.swap.current)"

## A manager that is killed: the guard lifts the wall, the program runs on.
manager=$(for one in /proc/[0-9]*; do tr '\0' ' ' <$one/cmdline 2>/dev/null | grep -q "__manager serve" && echo ${one#/proc/}; done | head -n 1)
lifted() { is "$(cat $dir/memory.max)" max; }
killed() { kill -9 $manager && wait_for 20 lifted && kill -0 $pid; }
test_that a_killed_managers_wall_is_lifted killed
kill -9 $pid

## Parked, and back.
: >park.out
mem anon 48 >park.out 2>&1 &
pid=$!
wait_for 30 grep -q ^ready park.out
parked() { pagetide reclaim $pid --all && at_least VmSwap "$(status $pid VmSwap)" 45000; }
test_that parked parked
again() { pagetide detach $pid --bring-back; }
test_that it_is_asked_back again
echo "VmSwap $(status $pid VmSwap) KiB, $(grep SwapCached /proc/meminfo)"
kill -9 $pid
exit 0

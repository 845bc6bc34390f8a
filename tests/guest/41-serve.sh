#!/bin/sh
# Tenants on version 2, on the multi-gen LRU too: the same files, beside the kernel's own.
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }

test_that it_serves serve
made() { mkdir $dir/a $dir/b && [ -d $groups/pagetide/a ]; }
test_that a_tenant_is_a_group made
test_that a_program_is_inside inside a mem anon 48
test_that another_is_inside inside b mem anon 24
a=$(cat a.pid)
b=$(cat b.pid)
same_pids() { is "$(cat $dir/a/cgroup.procs)" "$(cat $groups/pagetide/a/cgroup.procs)" && is "$(cat $dir/a/cgroup.procs)" $a; }
test_that the_kernel_lists_it same_pids
known() { at_least anon "$(word $dir/a/memory.stat anon)" 50331648; }
test_that its_pages_are_known wait_for 60 known
as_kernel() { near anon "$(word $dir/a/memory.stat anon)" "$(word $groups/pagetide/a/memory.stat anon)" 2 1048576; }
test_that stat_is_the_kernels as_kernel
current() { near current "$(cat $dir/a/memory.current)" "$(cat $groups/pagetide/a/memory.current)" 2 1048576; }
test_that current_is_the_kernels current

## A group that hands memory down takes no process: that is over with the last one below it, and nothing has begun where none could be made.
enters() { sh -c "echo 0 >$dir/free/cgroup.procs"; }
free() {
    mkdir $dir/free $dir/free/x && rmdir $dir/free/x && enters || return 1
    mkdir $dir/free/memory.oom.group 2>/dev/null && { echo "it was made"; return 1; }
    enters && wait_for 20 rmdir $dir/free
}
test_that who_had_others_below_takes_processes free

## What leaves is what the kernel has in swap.
reclaim() { echo 16m >$dir/a/memory.reclaim; }
# (Who has bits that could not be cleared in time is asked again.)
test_that it_is_reclaimed wait_for 60 reclaim
stolen() { near pgsteal "$(($(word $dir/a/memory.stat pgsteal_anon) * 4))" "$(status $a VmSwap)" 3 256; }
test_that pgsteal_is_in_swap stolen
swap() { near swap "$(cat $dir/a/memory.swap.current)" "$(cat $groups/pagetide/a/memory.swap.current)" 1 65536; }
test_that swap_is_the_kernels swap
alone() { is "$(status $b VmSwap)" 0; }
test_that its_neighbour_is_as_it_was alone

## Ages: nobody touches anything. (A look may be late in here, so the age is waited for.)
enable() { echo N0=500 >$dir/a/memory.workingset.refresh_interval && echo 1000,3000 >$dir/node0/workingset_report/page_age_intervals; }
test_that reports_are_switched_on enable
old() { at_least "old bytes" "$(tail -n 1 $dir/a/memory.workingset.page_age | sed 's/.*anon=\([0-9]*\).*/\1/')" 20000000; }
test_that idle_pages_are_old wait_for 60 old
pressure() { grep -q "^some avg10=" $dir/a/memory.pressure; }
test_that pressure_is_the_groups_own pressure

## Limits are the kernel's files, and protection holds.
limit() { echo 24m >$dir/a/memory.max; }
test_that a_limit_is_taken limit
wall() { is "$(cat $groups/pagetide/a/memory.max)" 25165824; }
test_that the_wall_stands wait_for 30 wall
below() { at_most current "$(cat $dir/a/memory.current)" 25165824; }
test_that it_is_below_its_wall wait_for 30 below
high() { echo 20m >$dir/a/memory.high && is "$(cat $groups/pagetide/a/memory.high)" 20971520; }
test_that high_slows_by_the_kernel high
## A high far below what is in use: it comes down in steps, and reads as it was asked for meanwhile.
third() { mkdir $dir/c && inside c mem anon 96; }
test_that a_third_is_inside third
lower() { echo 16m >$dir/c/memory.high && is "$(cat $dir/c/memory.high)" 16777216; }
test_that high_is_lowered_far lower
stands() { is "$(cat $groups/pagetide/c/memory.high)" 16777216 && at_most current "$(cat $dir/c/memory.current)" 16777216; }
test_that it_stands_in_the_end wait_for 60 stands
in_swap() { at_least VmSwap "$(status $(cat c.pid) VmSwap)" 75000; }
test_that the_rest_is_in_swap in_swap
third_goes() { kill -9 $(cat c.pid); wait_for 20 rmdir $dir/c; }
test_that the_third_goes third_goes

low() { echo 64m >$dir/b/memory.low && echo 2m >$dir/memory.reclaim; is "$(status $b VmSwap)" 0; }
test_that who_is_low_keeps_its_pages low

## The host's groups are told as the kernel has them, and the first one, which has no counters, as the machine.
of_host() { mkdir $groups/h && echo 64m >$groups/h/memory.low && echo max >$groups/h/memory.min && wait_for 60 test -e $dir/host/h/memory.low; }
test_that a_group_of_the_host_is_found of_host
protected() { is "$(cat $dir/host/h/memory.low) $(cat $dir/host/h/memory.min)" "67108864 max"; }
test_that it_is_protected_as_the_kernel_has_it protected
all_swap() { at_least swap "$(cat $dir/host/memory.swap.current)" 12000000; }
test_that all_in_swap_is_the_hosts all_swap
## Removed by another hand, it has not counted nothing.
gone() { rmdir $groups/h && ! cat $dir/host/h/memory.events; }
test_that it_tells_nothing_when_it_is_gone gone

## Killed: the next one goes on.
killed() { kill -9 $(cat serve.pid) && kill -0 $a && serve && is "$(cat $dir/a/memory.max)" 25165824; }
test_that a_killed_one_is_followed killed
by_command() { near anon "$(pagetide stat /b | awk '$1 == "anon" { print $2 }')" "$(word $groups/pagetide/b/memory.stat anon)" 2 1048576; }
test_that the_socket_tells_the_same wait_for 30 by_command

## Gone.
busy() { rmdir $dir/a 2>/dev/null && { echo "it was removed"; return 1; }; return 0; }
test_that who_has_processes_stays busy
kill -9 $a $b
removed() { wait_for 20 rmdir $dir/a && wait_for 20 rmdir $dir/b && ! [ -e $groups/pagetide/a ]; }
test_that they_are_removed removed
ended() { echo >$dir/node0/workingset_report/page_age_intervals && kill $(cat serve.pid) && wait_for 20 sh -c "! [ -e $groups/pagetide ]"; }
test_that nothing_is_left ended

## The kernel's own reclaim leaves what is protected: as far as the group above all tenants has it, which claims what they use of it. Not below the
## first group: of that 6.12 takes whatever is protected (44-protection.sh).
root=$groups/g/pagetide
below() { mkdir $groups/g && serve --root g/pagetide && mkdir $dir/a $dir/b; }
test_that it_serves_below_a_group below
both() { inside a mem anon 48 && inside b mem anon 24 && echo 64m >$dir/b/memory.low; }
test_that two_are_inside both
a=$(cat a.pid)
b=$(cat b.pid)
kernels() { is "$(cat $root/b/memory.low)" 67108864 && is "$(cat $root/b/memory.min) $(cat $root/a/memory.low)" "0 0"; }
test_that protection_is_the_kernels_too kernels
claimed() { at_least low "$(cat $root/memory.low)" 25000000 && at_most low "$(cat $root/memory.low)" 30000000; }
test_that the_root_claims_what_is_used wait_for 20 claimed
said() { grep -q "up to the values of /g and the groups above it" serve.out; }
test_that it_says_what_is_missing_above wait_for 20 said
squeezed() { echo 16m >$groups/g/memory.reclaim; is "$(status $b VmSwap)" 0 && at_least VmSwap "$(status $a VmSwap)" 12000; }
test_that the_kernel_takes_from_the_other squeezed
follows() { kill -9 $(cat serve.pid) && serve --root g/pagetide && kernels && wait_for 20 claimed; }
test_that the_next_one_keeps_it follows
lowered() { echo 0 >$dir/b/memory.low && is "$(cat $root/b/memory.low) $(cat $root/memory.low)" "0 0"; }
test_that it_is_taken_back lowered
kill -9 $a $b
gone() { echo 64m >$dir/b/memory.low && wait_for 20 rmdir $dir/b && is "$(cat $root/memory.low)" 0 && wait_for 20 rmdir $dir/a; }
test_that it_goes_with_its_tenant gone
over() { kill $(cat serve.pid) && wait_for 20 rmdir $groups/g; }
test_that nothing_is_left_there over
exit 0

#!/bin/sh
# programs: sleeper
# How `serve` begins, lives and ends under a service manager on version 2; what it refuses, by errno, beside the kernel; and an upgrade to another file
# while a program is under a limit.
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }

## Type=notify: a service manager of our own.
hears notify 300 >notified 2>&1 &
teller=$!
listens() { wait_for 20 grep -q ready notified || { cat notified; return 1; }; }
test_that somebody_listens listens
export NOTIFY_SOCKET=$PWD/notify WATCHDOG_USEC=1000000
test_that it_serves serve
unset NOTIFY_SOCKET WATCHDOG_USEC
test_that it_says_that_it_is_ready wait_for 20 grep -q READY=1 notified
beats() { grep -c WATCHDOG=1 notified; }
lives() { wait_for 20 grep -q WATCHDOG=1 notified && first=$(beats) && sleep 3 && at_least beats "$(beats)" $((first + 2)); }
test_that it_says_that_it_lives lives
reloaded() {
    kill -HUP $(cat serve.pid) && wait_for 20 grep -q RELOADING=1 notified && wait_for 20 grep -q MONOTONIC_USEC= notified &&
        wait_for 20 twice
}
twice() { at_least "READY=1" "$(grep -c READY=1 notified)" 2; }
test_that it_says_that_it_is_reloaded reloaded

## What is refused, by errno: beside a group of the kernel's with the same files. (An empty line is a limit of 0 to the kernel, and nothing to us.)
mkdir $dir/u $groups/own
by_both=0
# refused ERRNO CALL FILE [TEXT]: so by us, and by the kernel of its own file.
refused() {
    is "$(errno $2 $dir/u/$3 "$4")" $1 || return 1
    is "the kernel: $(errno $2 $groups/own/$3 "$4")" "the kernel: $1"
}
while read -r errno call file text; do
    test_that "${call}_${file}_${text:-nothing}_is_$errno" refused $errno $call $file "$text"
done <<END
22 write memory.max much
22 write memory.max -1
22 write memory.low 1x
22 write memory.high 1k2
22 write memory.reclaim -
22 write memory.reclaim much
22 write cgroup.procs x
3 write cgroup.procs 4194304
0 write memory.max 1048577
0 read memory.max
0 write memory.max max
17 mkdir memory.stat
22 write memory.stat 1
22 read memory.reclaim
2 read memory.nothing
1 unlink memory.max
20 rmdir memory.max
END
rounded() { echo 1048577 >$dir/u/memory.max && is "$(cat $dir/u/memory.max)" 1048576 && echo max >$dir/u/memory.max; }
test_that sizes_are_down_to_a_page rounded
ours() { is "$(errno write $dir/$1 "$2")" $3; }
test_that an_interval_of_no_node_is_EINVAL ours u/memory.workingset.refresh_interval N9=1 22
test_that intervals_that_do_not_ascend_are_EINVAL ours node0/workingset_report/page_age_intervals 5,5 22
test_that more_than_there_is_is_EAGAIN ours u/memory.reclaim 1g 11
exists() { is "$(errno mkdir $dir/u)" 17 && is "$(errno mkdir $groups/own)" 17; }
test_that what_exists_is_EEXIST exists
echo +memory >$groups/own/cgroup.subtree_control
mkdir $dir/u/b $groups/own/b
busy() { is "$(errno rmdir $dir/u)" 16 && is "$(errno rmdir $groups/own)" 16; }
test_that what_has_children_is_EBUSY busy
gone() {
    exec 4<$dir/u/b/memory.current 5<$groups/own/b/memory.current && rmdir $dir/u/b $groups/own/b || return 1
    for one in 4 5; do cat <&$one 2>&1; done | grep -c "No such device" | grep -qx 2
}
test_that what_is_gone_is_ENODEV gone
rmdir $groups/own

## An upgrade: another file in its place, the old one killed or asked to end, and the next goes on.
test_that a_program_is_inside inside u sleeper 24
kept=$(cat u.pid)
limit=16777216
limited() { echo $limit >$dir/u/memory.max && wait_for 60 below; }
below() { at_most charge "$(cat $groups/pagetide/u/memory.current)" $limit; }
test_that a_limit_is_held limited
own=$(which pagetide)
# upgraded SIGNAL
upgraded() {
    cp $own $PWD/new && mv $PWD/new $PWD/pagetide && kill -$1 $(cat serve.pid) && wait_for 20 is_ended && checked u || return 1
    umount -l $dir 2>/dev/null
    PATH=$PWD:$PATH serve || return 1
    is "$(readlink /proc/$(cat serve.pid)/exe)" $PWD/pagetide && is "$(cat $dir/u/memory.max)" $limit &&
        is "$(cat $dir/u/cgroup.procs)" $kept && wait_for 60 below && checked u
}
test_that killed_it_is_followed_by_another_file upgraded KILL
test_that it_is_followed_again upgraded KILL
swapped() { at_least VmSwap "$(status $kept VmSwap)" 4096; }
test_that the_limit_is_held_by_what_leaves wait_for 60 swapped
lifted() { echo max >$dir/u/memory.max && checked u; }
test_that all_of_it_is_right lifted

## It ends, and says so.
ended() { kill $kept; wait_for 30 rmdir $dir/u && stopped; }
test_that it_ends ended
export NOTIFY_SOCKET=$PWD/notify
test_that it_begins_once_more serve
unset NOTIFY_SOCKET
test_that it_ends_when_asked stopped
test_that it_says_that_it_stops wait_for 20 grep -q STOPPING=1 notified
kill $teller
exit 0

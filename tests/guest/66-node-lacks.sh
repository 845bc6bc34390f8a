#!/bin/sh
# One of two memory nodes lacks memory while the host has enough: pages of that node leave, and none of the other's. By the kernel's figures
# of each process and each node.
# nodes: 2
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }

# of_node NODE NAME: KiB.
of_node() { awk -v name="$2:" '$3 == name { print $4 }' /sys/devices/system/node/node$1/meminfo; }
# usable NODE: KiB that are free or could be; what is available is no more.
usable() {
    awk '$3 == "MemFree:" || $3 == "Active(file):" || $3 == "Inactive(file):" || $3 == "SReclaimable:" { sum += $4 } END { print sum }' \
        /sys/devices/system/node/node$1/meminfo
}
available() { awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo; }
# pages NAME NODE: pages of a program on a node, by numa_maps.
pages() { tr ' ' '\n' </proc/$(cat $1.pid)/numa_maps | awk -F= -v node="N$2" '$1 == node { n += $2 } END { print n + 0 }'; }
swapped() { status $(cat $1.pid) VmSwap; }
known() { at_least $1 "$(word $dir/$1/memory.stat anon)" $(($2 * 1048576)); }
# lacks LOW HIGH: KiB.
lacks() {
    printf '[pressure]\navailable-low = "%d"\navailable-high = "%d"\n' $(($1 * 1024)) $((${2:-0} * 1024)) >serve.toml
    [ "$1" = 0 ] && printf '[pressure]\navailable-low = "0"\n' >serve.toml
    [ ! -s serve.pid ] || kill -HUP $(cat serve.pid)
}
show() {
    for one in far cold hot; do echo "$1: $one: N0 $(pages $one 0) N1 $(pages $one 1) pages, VmSwap $(swapped $one) KiB"; done
    echo "$1: node 0 has $(usable 0) KiB usable, node 1 $(usable 1), MemAvailable $(available)"
}

lacks 0
test_that it_serves serve --config $PWD/serve.toml
# The oldest memory is on node 1. Of `hot` the first half is used all the time, the second never again. Most of node 0 is of no tenant.
filled() {
    onnode 0 mem quick 128 >other.out 2>&1 &
    echo $! >other.pid
    mkdir $dir/far $dir/cold $dir/hot && inside far onnode 1 mem kept 32 && wait_for 60 known far 32 && sleep 5 &&
        inside cold onnode 0 mem kept 40 && inside hot onnode 0 mem ages 24 200 && wait_for 60 known cold 40 && wait_for 60 known hot 24 &&
        wait_for 60 grep -q ^ready other.out
}
test_that node_0_is_filled filled
sleep 5
show before
far=$(pages far 1)
nothing() { is "$(swapped far) $(swapped cold) $(swapped hot)" "0 0 0"; }
test_that nothing_has_left nothing

# Node 0 has its share of the marks, and less than that; all together have more.
whole=$(($(of_node 0 MemTotal) + $(of_node 1 MemTotal)))
low=$((($(usable 0) + 8192) * whole / $(of_node 0 MemTotal)))
high=$((low + 32768))
enough() { at_least MemAvailable "$(available)" $((high + 16384)); }
test_that the_host_has_enough enough
leaves() { at_least VmSwap "$(swapped cold)" 12000; }
begins() { lacks $low $high && wait_for 60 leaves; }
test_that pages_of_the_full_node_leave begins
sleep 5
show after
test_that the_host_still_has_enough enough
stays() { is "$(swapped far)" 0 && is "$(pages far 1)" $far; }
test_that none_of_the_other_node_does stays
hot() { at_most VmSwap "$(swapped hot)" 13400; }
test_that what_is_used_stays hot
tells() { grep -q 'of all tenants: memory node 0 has' serve.out serve.err; }
test_that the_log_names_the_node tells
lacks 0
sleep 2

# A request may name a node, too.
cold=$(swapped cold)
asked() { echo "8m node=1" >$dir/memory.reclaim && at_least VmSwap "$(swapped far)" 8000 && at_most VmSwap "$(swapped far)" 8400; }
test_that a_request_takes_from_its_node asked
other() { is "$(swapped cold)" $cold; }
test_that and_from_no_other other
show asked
unknown() {
    why=$(echo "8m node=7" 2>&1 >$dir/memory.reclaim) && return 1
    case $why in *"No such device or address"*) ;; *) echo "$why"; return 1 ;; esac
}
test_that there_is_no_node_7 unknown
right() { for one in far cold; do checked $one && grep -q right $one.out || return 1; done; }
test_that their_memory_is_right right
kill -9 $(cat far.pid) $(cat cold.pid) $(cat hot.pid) $(cat other.pid)
gone() { for tenant in far cold hot; do wait_for 20 rmdir $dir/$tenant || return 1; done; }
test_that they_are_removed gone
exit 0

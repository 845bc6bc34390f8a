#!/bin/sh
# Who gives when, on version 2: by the host's own lack of memory, all at once by the iterator, and who has been removed; and who is
# slowed or may not swap. By the kernel's figures.
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }

# two NAME NAME: tenants with 16 MiB each that are known.
two() {
    for one in $1 $2; do
        mkdir $dir/$one && inside $one mem kept 16 || return 1
    done
    wait_for 60 known $1 && wait_for 60 known $2
}
known() { at_least anon "$(word $dir/$1/memory.stat anon)" 16777216; }
swapped() { echo $(($(status $(cat $1.pid) VmSwap) * 1024)); }
# right NAME...: all that each had is in it, and they go.
right() {
    for one; do
        kill -USR1 $(cat $one.pid) && wait_for 60 grep -q right $one.out || return 1
        kill -9 $(cat $one.pid)
        wait_for 20 rmdir $dir/$one || return 1
    done
}

## A host that lacks memory, by marks that none can be above; nobody asks.
lacks() { printf '[pressure]\navailable-low = "%s"\n' $1 >serve.toml; }
lacks 0
test_that it_serves serve --config $PWD/serve.toml
test_that two_are_known two plain min
echo 32m >$dir/min/memory.min
nothing() { sleep 3; is "$(swapped plain) $(swapped min)" "0 0"; }
test_that nothing_is_lacking nothing
gives() { at_least VmSwap "$(swapped plain)" 14000000; }
begins() { lacks 100% && kill -HUP $(cat serve.pid) && wait_for 60 gives; }
test_that it_gives_when_the_host_lacks_memory begins
keeps() { is "$(swapped min)" 0; }
test_that who_has_min_keeps_it keeps
kswapd() { at_least pgsteal_kswapd "$(word $dir/memory.stat pgsteal_kswapd)" 3400; }
test_that it_is_told_as_the_background kswapd

## While tasks wait for memory it begins at the high mark already, though there is enough by the low one. (Others', in a group of the guest's own: they thrash.)
stalls() {
    printf '[pressure]\navailable-low = "1%%"\navailable-high = "100%%"\n' >serve.toml && kill -HUP $(cat serve.pid) || return 1
    wait_for 60 is_calm && mkdir $dir/calm && inside calm mem kept 16 && wait_for 60 known calm && sleep 12 && is "$(swapped calm)" 0 || return 1
    new_group others && echo 24M >$group/memory.max && start sweep 48 && wait_for 60 leaves_calm
    status=$?
    awk '$1 == "some"' /proc/pressure/memory >&3
    return $status
}
is_calm() { awk '$1 == "some" { split($2, ten, "="); exit !(ten[2] < 5) }' /proc/pressure/memory; }
leaves_calm() { at_least VmSwap "$(swapped calm)" 14000000; }
exec 3>&1
test_that it_gives_while_others_wait_for_memory stalls
test_that others_are_ended kill_group
test_that all_of_it_is_right_too right calm
ends() { lacks 0 && kill -HUP $(cat serve.pid); }
test_that it_ends ends
test_that all_is_right right plain min

## memory.high slows, and both files count it; memory.swap.max bounds what is out.
slowed() { mkdir $dir/high && echo 12m >$dir/high/memory.high && inside high mem kept 24 && wait_for 30 counted; }
counted() { at_least high "$(word $groups/pagetide/high/memory.events high)" 1 && is "$(word $dir/high/memory.events high)" "$(word $groups/pagetide/high/memory.events high)"; }
test_that high_slows_and_counts slowed
echo "high: $(word $groups/pagetide/high/memory.events high) times by the kernel"
bounded() { mkdir $dir/little && inside little mem kept 16 && echo 4m >$dir/little/memory.swap.max && wait_for 60 known little; }
test_that one_may_swap_little bounded
less() {
    echo 12m 2>/dev/null >$dir/little/memory.reclaim && { echo "all was had"; return 1; }
    at_most VmSwap "$(swapped little)" 4194304 && at_least VmSwap "$(swapped little)" 4000000
}
test_that no_more_is_out less
test_that they_are_right right high little

## Page cache of one that was removed.
disk 96
filled() { mkdir $dir/r && once r dd if=/dev/zero of=$where/data bs=1M count=48 2>/dev/null && sync && rmdir $dir/r; }
test_that one_is_removed_with_its_cache filled
cached() { awk '$1 == "Cached:" { print $2 }' /proc/meminfo; }
before=$(cached)
emptied() { echo 32m >$dir/memory.reclaim; at_least "KiB of cache that went" $((before - $(cached))) 30000; }
test_that it_gives_all_the_same emptied
umount $where

## The iterator: all give each time.
test_that it_ends_too stopped
test_that it_serves_by_the_iterator serve --global iterator
test_that two_are_known_there two one other
alike() { echo 8m >$dir/memory.reclaim && at_least one "$(swapped one)" 2000000 && at_least other "$(swapped other)" 2000000; }
test_that both_give alike
test_that both_have_all right one other

## Heat levels: cold ones give, as many bytes as are requested.
test_that it_ends_once_more stopped
test_that it_serves_by_heat_levels serve --global heat-level
test_that two_are_known_there_too two one other
both() { echo $(($(swapped one) + $(swapped other))); }
some_give() { before=$(both) && echo 8m >$dir/memory.reclaim && at_least both $(($(both) - before)) 8000000; }
test_that some_give some_give
test_that these_have_all_too right one other
exit 0

#!/bin/sh
# Protection of nested tenants that claim more than those above them have, dealt out by the kernel and by pagetide: the same
# groups and programs, once with memory.min or memory.low of the kernel and its memory.reclaim, once with ours. It is a group that is
# reclaimed from: of the root 6.12 takes whatever is protected, as shrink_one relies on what only kswapd computes.
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }

# Unclaimed protection is shared out below whoever has it, as systemd mounts it.
mount -o remount,memory_recursiveprot /sys/fs/cgroup || { echo "FAILED mount: it cannot be remounted"; exit 1; }

# Paths, MiB that are protected, MiB of the program inside.
rows="over:32:0 over/p:48:0 over/p/a:32:32 over/p/b:16:16 over/p/c:0:8 over/q:16:16 most:24:0 most/a:8:32 most/b:0:16 none:0:16"
# stand DIR: groups below it, programs in them; then what is protected, by memory.$kind.
stand() {
    : >stand.pids
    for row in $rows; do
        path=${row%%:*} mib=${row##*:}
        # The kernel's are to hand memory down; ours do.
        [ $1 = $dir/t ] || echo +memory >$(dirname $1/$path)/cgroup.subtree_control
        mkdir $1/$path || return 1
        [ $mib = 0 ] && continue
        : >stand.out
        sh -c "echo 0 >$1/$path/cgroup.procs; exec mem anon $mib" >stand.out 2>&1 &
        echo $! >>stand.pids
        wait_for 60 grep -q ^ready stand.out || { cat stand.out; return 1; }
    done
    for row in $rows; do
        path=${row%%:*} mib=${row#*:}
        echo ${mib%:*}m >$1/$path/memory.$kind || return 1
    done
}
# squeeze DIR: in small steps, until there is no more to be had; of low, as much as is not protected, for then what is protected goes, too. (A little is
# charged for tables, and never goes.)
squeeze() {
    steps=200
    [ $kind = low ] && steps=$((($(cat $1/memory.current) >> 20) - 57))
    for step in $(seq $steps); do
        echo 1m >$1/memory.reclaim 2>/dev/null && continue
        [ $kind = min ] && return 0
        echo "step $step of $steps: nothing is to be had"
        return 1
    done
    [ $kind = low ] && return 0
    echo "it gives without end"
    return 1
}
# kept DIR: what the kernel charges to each, KiB.
kept() { for row in $rows; do path=${row%%:*}; echo "$path $(($(cat $1/$path/memory.current) >> 10))"; done; }
# sums KEPT: what is right below keeps what is set for it, and who has nothing set there has nothing, or, of low, no more than was not asked for.
sums() {
    left=1024
    [ $kind = low ] && left=2048
    near over "$(word $1 over)" 32768 3 256 && near most "$(word $1 most)" 24576 3 256 && at_most none "$(word $1 none)" $left
}
end_all() {
    kill -9 $(cat stand.pids)
    for row in $(echo $rows | tr ' ' '\n' | tac); do wait_for 20 rmdir $1/${row%%:*} || return 1; done
    : >stand.pids
}

test_that it_serves serve
for kind in min low; do
    mkdir $groups/kernel
    test_that the_kernel_has_them_by_$kind stand $groups/kernel
    test_that it_takes_what_it_may_by_$kind squeeze $groups/kernel
    kept $groups/kernel >kernel.kept
    test_that the_kernel_keeps_the_sums_by_$kind sums kernel.kept
    test_that they_end_by_$kind end_all $groups/kernel

    mkdir $dir/t
    test_that pagetide_has_them_by_$kind stand $dir/t
    known() { at_least anon "$(word $dir/t/memory.stat anon)" 142606336; }
    test_that all_is_known_by_$kind wait_for 60 known
    test_that it_takes_what_it_may_too_by_$kind squeeze $dir/t
    kept $groups/pagetide/t >ours.kept
    test_that pagetide_keeps_the_sums_by_$kind sums ours.kept

    ## What each of those that claim too much keeps depends on who was met when, in the kernel as here: who loses claims less, and
    ## the others' shares grow. Nobody is left with nothing. Shares of the formula at first, KiB, beside what was kept.
    shares="over/p:24576 over/p/a:16384 over/p/b:8192 over/q:8192 most/a:18432 most/b:6144"
    for share in $shares; do
        path=${share%:*}
        echo "$path: formula ${share#*:}, kernel $(word kernel.kept $path), ours $(word ours.kept $path)"
    done
    some() {
        for share in $shares; do
            at_least "$1 ${share%:*}" "$(word $1.kept ${share%:*})" $((${share#*:} / 4)) || return 1
        done
    }
    test_that all_have_some_by_the_kernel_by_$kind some kernel
    test_that all_have_some_by_pagetide_by_$kind some ours
    test_that ours_end_by_$kind end_all $dir/t
    # (The story: 47-many counted it among its own.)
    gone() { rmdir $dir/t && rmdir $groups/kernel; }
    test_that nothing_is_left_by_$kind gone
done
exit 0

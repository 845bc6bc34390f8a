#!/bin/sh
# What many tenants are promised, on version 2: each by the kernel's figures.
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }


## The host's groups are refused, and taken where that is allowed; another user reads nothing.
test_that it_serves serve
refused() {
    mkdir $groups/h && wait_for 60 test -e $dir/host/h/memory.max || return 1
    echo 8m 2>/dev/null >$dir/host/h/memory.max && { echo "it was taken"; return 1; }
    mkdir $dir/host/h/x 2>/dev/null && { echo "one was made"; return 1; }
    is "$(cat $groups/h/memory.max)" max
}
test_that the_hosts_are_refused refused
other() { setuidgid nobody cat $dir/memory.stat 2>/dev/null && { echo "it was read"; return 1; }; return 0; }
if busybox --list | grep -q setuidgid; then
    test_that another_user_reads_nothing other
else
    skip another_user_reads_nothing "no setuidgid"
fi
test_that it_ends stopped
test_that it_manages_the_host serve --manage-host
taken() { wait_for 60 test -e $dir/host/h/memory.max && echo 8m >$dir/host/h/memory.max && is "$(cat $groups/h/memory.max)" 8388608; }
test_that they_are_taken taken
test_that it_ends_again stopped
rmdir $groups/h

## Two under one wall: both go on, nobody is killed, no more is charged than it allows.
test_that it_serves_again serve
mkdir $dir/p $dir/p/a $dir/p/b
echo 48m >$dir/p/memory.max
test_that one_is_inside inside p/a mem ages 32 300
one=$(cat a.pid)
test_that another_is_inside inside p/b mem ages 32 300
other=$(cat b.pid)
sleep 10
held() { at_most peak "$(cat $groups/pagetide/p/memory.peak)" $((48 * 1048576 * 105 / 100)); }
[ -e $groups/pagetide/p/memory.peak ] && test_that the_wall_holds held
nobody() { is "$(word $groups/pagetide/p/memory.events oom_kill)" 0 && kill -0 $one && kill -0 $other; }
test_that nobody_is_killed nobody
kill -9 $one $other

## Rounds of reclaim of the root take alike from eight alike, and what the kernel swaps out is what is told.
for n in 1 2 3 4 5 6 7 8; do
    mkdir $dir/f$n
    inside f$n mem anon 8 >/dev/null || echo "FAILED f$n"
done
sleep 6
out() { awk '$1 == "pswpout" || $1 == "swpout_zero" { n += $2 } END { print n }' /proc/vmstat; }
before=$(out)
for round in 1 2 3 4; do
    echo 4m >$dir/memory.reclaim
    sleep 2
done
sum=0 most=0 least=999999
for n in 1 2 3 4 5 6 7 8; do
    some=$(word $dir/f$n/memory.stat pgsteal_anon)
    sum=$((sum + some))
    [ $some -gt $most ] && most=$some
    [ $some -lt $least ] && least=$some
done
asked() { near taken $sum $((4 * 1024)) 3; }
test_that what_is_asked_for_is_taken asked
kernels() { near "swapped out" $sum $(($(out) - before)) 2 64; }
test_that it_is_what_the_kernel_swapped_out kernels
alike() { at_most most $most $((least * 2)); }
test_that all_give_alike alike
echo "pgsteal $least to $most, sum $sum; the kernel's $(($(out) - before))"

## They come and go, with garbage in their files; a family that shares its memory is the kernel's sum.
storm() {
    for n in $(seq 200); do
        mkdir $dir/t$n || return 1
        echo garbage 2>/dev/null >$dir/t$n/memory.max && { echo "garbage was taken"; return 1; }
        rmdir $dir/t$n || return 1
    done
    kill -0 $(cat serve.pid) && is "$(ls -d $groups/pagetide/t* 2>/dev/null | wc -l)" 0
}
test_that tenants_come_and_go storm
mkdir $dir/family
test_that a_family_is_inside inside family mem forked 24
# (Shared memory is among ours: docs/known-gaps.md.)
of_kernel() { awk '$1 == "anon" || $1 == "shmem" { n += $2 } END { print n }' $groups/pagetide/family/memory.stat; }
as_kernel() { near anon "$(word $dir/family/memory.stat anon)" "$(of_kernel)" 2 1048576; }
test_that its_memory_is_the_kernels wait_for 60 as_kernel
exit 0

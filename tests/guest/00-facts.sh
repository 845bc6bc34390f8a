#!/bin/sh
# What the other scripts take for granted of the kernel they run under: $GUEST_KERNEL, with a swap of
# $GUEST_ZRAM_MIB on zram. Nothing is believed that can be tried.

. /suite/lib

version() { case $(uname -r) in "$GUEST_KERNEL".*) ;; *) uname -r; return 1 ;; esac; }

lru_gen=/sys/kernel/mm/lru_gen/enabled
# 6.12 has it on, fully: the generations, the walks of leaves and of non-leaves.
mglru_on() { is "$(cat $lru_gen)" 0x0007; }
# 6.1 has it off, and it can be turned on and off again.
mglru_off() {
    is "$(cat $lru_gen)" 0x0000 && echo y >$lru_gen && is "$(cat $lru_gen)" 0x0007 &&
        echo n >$lru_gen && is "$(cat $lru_gen)" 0x0000
}

cgroup=/sys/fs/cgroup
memory_controller() { has_word "$(cat $cgroup/cgroup.controllers)" memory; }
child_group() {
    echo +memory >$cgroup/cgroup.subtree_control && mkdir -p $cgroup/facts &&
        [ -w $cgroup/facts/memory.reclaim ] && [ -r $cgroup/facts/memory.pressure ]
}

swap_on() {
    is "$(sed -n 's|^/dev/zram0 .*partition[^0-9]*\([0-9]*\).*|\1|p' /proc/swaps)" \
        $((GUEST_ZRAM_MIB * 1024 - 4))
}
# Reclaims a file on tmpfs and reads it back.
swap_used() {
    (
        echo 0 >$cgroup/facts/cgroup.procs
        seq 2000000 >/tmp/numbers
    )
    before=$(md5sum </tmp/numbers)
    echo 8M >$cgroup/facts/memory.reclaim || return 1
    swapped=$(cat $cgroup/facts/memory.swap.current)
    [ "$swapped" -gt 4000000 ] || { echo "$swapped bytes swapped out"; return 1; }
    is "$(md5sum </tmp/numbers)" "$before" && rm /tmp/numbers
}

damon() {
    [ -w /sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds ] &&
        echo 1 >/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds &&
        echo 1 >/sys/kernel/mm/damon/admin/kdamonds/0/contexts/nr_contexts &&
        has_word "$(cat /sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/avail_operations | tr '\n' ' ')" vaddr
}

test_that the_kernel_is_the_one_asked_for version
if [ "$GUEST_KERNEL" = 6.1 ]; then
    test_that mglru_is_there_but_off mglru_off
else
    test_that mglru_is_on mglru_on
fi
test_that the_memory_controller_is_there memory_controller
test_that a_group_has_reclaim_and_pressure child_group
if [ "$GUEST_ZRAM_MIB" -gt 0 ]; then
    test_that swap_on_zram_has_its_size swap_on
    test_that what_was_swapped_out_comes_back swap_used
fi
test_that pressure_is_told grep -q "^full avg10=" /proc/pressure/memory
test_that userfaultfd_is_there config USERFAULTFD y
test_that btf_is_there [ -s /sys/kernel/btf/vmlinux ]
test_that bpf_is_usable bpf_usable
test_that pagetide_starts pagetide --version
grep -E '^(# )?CONFIG_(DAMON[A-Z_]*|IDLE_PAGE_TRACKING|PROC_EVENTS|PSI|LRU_GEN[A-Z_]*)[ =]' /config
damon >/tmp/damon 2>&1 && echo "damon: usable by sysfs" || echo "damon: not usable"
rmdir $cgroup/facts
exit 0

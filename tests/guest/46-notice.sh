#!/bin/sh
# programs: notice hostile
# Nothing to notice on version 2, on the multi-gen LRU too: threads, families and walls of tests/programs/notice beside themselves alone, while
# everything cold leaves all the time, by the kernel's figures; a core dump; and the hostile workload.
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }
disk && cd $where
echo 0 >/proc/sys/kernel/randomize_va_space # as `setarch -R` does on the host
export NOTICE_PATIENCE=4
begin=$(out)

for one in threads64 clone_vm robust inherit rseq altstack \
    fork_storm vfork_storm prefork cow_tree daemon main_first \
    seccomp_strict chroot_setuid namespaces undumpable stopped frozen traced; do
    test_that $one beside 0 "" notice $one
done
test_that a_prefork_server_in_a_wall beside 0 "--memory-max 24M" notice prefork

## What a core has of memory that was out is what it has alone: of the environment alone some bytes differ.
echo core >/proc/sys/kernel/core_pattern
echo 0 >/proc/sys/kernel/core_uses_pid
mkdir 0 1
dumped() {
    beside 134 "" sh -c 'cd $NOTICE_MANAGED && ulimit -c unlimited && notice dump; exit $?' || return 1
    is "$(wc -c <1/core)" "$(wc -c <0/core)" && at_least core "$(wc -c <1/core)" 8388608 &&
        at_most "bytes that differ" "$(cmp -l 0/core 1/core | wc -l)" 4096
}
test_that a_core_dump_is_the_same dumped
echo "core of $(wc -c <1/core) bytes, $(cmp -l 0/core 1/core | wc -l) differ"
rm -r 0 1
told $begin

before=$(out)
left() { at_least pswpout $(($(out) - before)) 1000; }
# As often as it takes on a busy machine.
hostile_is_right() {
    for seed in 7 8 9 10; do
        pagetide run $policy -- hostile --seconds 10 --seed $seed --mib 32 --dir . --progress progress >hostile.out 2>&1 || { tail -n 3 hostile.out; return 1; }
        left >/dev/null && break
    done
}
test_that no_wrong_byte hostile_is_right
test_that pages_left left
echo "hostile: pswpout $(($(out) - before))"
cd /
exit 0

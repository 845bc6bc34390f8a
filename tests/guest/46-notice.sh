#!/bin/sh
# programs: notice hostile
# Nothing to notice on version 2, on the multi-gen LRU too: threads and families of tests/programs/notice beside themselves alone, while everything
# cold leaves all the time, by the kernel's figures; and the hostile workload. (46-notice-memory, -walls and -wrappers have the rest.)
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }
disk && cd $where
echo 0 >/proc/sys/kernel/randomize_va_space # as `setarch -R` does on the host
export NOTICE_PATIENCE=4
begin=$(out)

for one in threads64 clone_vm robust inherit rseq altstack \
    fork_storm vfork_storm prefork cow_tree daemon main_first; do
    test_that $one beside 0 "" notice $one
done
test_that a_prefork_server_in_a_wall beside 0 "--memory-max 24M" notice prefork
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

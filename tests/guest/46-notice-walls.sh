#!/bin/sh
# programs: notice
# Nothing to notice on version 2: filters, roots, users and namespaces of their own, stopped, frozen and traced ones, beside themselves alone; and a
# core dump.
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }
disk && cd $where
echo 0 >/proc/sys/kernel/randomize_va_space
export NOTICE_PATIENCE=4
begin=$(out)

for one in seccomp_strict chroot_setuid namespaces undumpable stopped frozen traced; do
    test_that $one beside 0 "" notice $one
done

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
cd /
exit 0

#!/bin/sh
# programs: notice
# Nothing to notice on version 2: each advice, lock, limit and move of memory that has left, and memory that others see, beside itself alone.
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }
disk && cd $where # O_TMPFILE, O_DIRECT
echo 0 >/proc/sys/kernel/randomize_va_space
export NOTICE_PATIENCE=4
begin=$(out)

for one in wipeonfork dontfork lazyfree freed_by_child guard collapse pageout removed hints droppable dontneed protect populate \
    mlockall_before mlockall_after mlock_onfault rlimit_as \
    mremap_storm dontunmap shm_remap growsdown brk_heap \
    memfd shared_anon private_file shared_file direct uring pipes process_vm wp_uffd; do
    test_that $one beside 0 "" notice $one
done
told $begin
cd /
exit 0

#!/bin/sh
# Page cache that nobody maps, on version 2: told with estimated ages, and taken in its place among the other pages.
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }

age=$dir/a/memory.workingset.page_age
guessed=$dir/a/memory.workingset.page_age_estimated
kernel=$groups/pagetide/a/memory.stat
# What the kernel counts of files that nobody maps.
cached() { echo $(($(word $kernel file) - $(word $kernel swapcached) - $(word $kernel shmem) - $(word $kernel file_mapped))); }
# bytes FILE TYPE [PREFIX]: of all bins, or of those whose edge begins so.
bytes() { awk -v type="$2" -v edge="^$3" '$1 ~ edge && /=/ { split($0, at, type "="); split(at[2], value, " "); all += value[1] } END { printf "%d", all }' $1; }
swapped() { status $(cat a.pid) VmSwap; }

test_that it_serves serve
disk >disk.err 2>&1
test_that there_is_a_disk test -d "$where"
made() { mkdir $dir/a; }
test_that a_tenant_is_made made
bins() { echo 4000 >$dir/node0/workingset_report/page_age_intervals && echo N0=500 >$dir/a/memory.workingset.refresh_interval; }
test_that reports_are_on bins

## 12 MiB that nobody uses again, then page cache, and 12 MiB that are in use all the time.
test_that a_program_runs inside a mem ages 24 200
sleep 3
fill() { once a dd if=/dev/zero of=data bs=1M count=40 2>/dev/null && sync; }
test_that a_file_is_written fill
told() { near unmapped "$(bytes $guessed file)" "$(cached)" 2 1048576 && at_least unmapped "$(cached)" 41000000; }
test_that it_is_told wait_for 20 told
young() { at_most "old" "$(bytes $guessed file 18446744073709551615)" 1048576; }
test_that it_is_young_at_first young
old() { at_least "old" "$(bytes $guessed file 18446744073709551615)" 41000000; }
test_that it_grows_old wait_for 20 old
sums() { near file "$(bytes $age file)" "$(word $kernel file)" 2 1048576; }
test_that all_of_a_files_bytes_are_told sums
echo "before: ours $(bytes $guessed file), the kernel's $(cached), VmSwap $(swapped) KiB"

## The oldest 32 MiB: what nobody used again, and then cache.
echo "$(cached)" >cached.before
taken() { echo 32m >$dir/a/memory.reclaim; }
test_that the_oldest_is_taken taken
echo "after: ours $(bytes $guessed file), the kernel's $(cached), VmSwap $(swapped) KiB, file of memory.stat $(word $kernel file)"
dropped() { near dropped "$(($(cat cached.before) - $(cached)))" 20971520 10 1048576; }
test_that cache_was_dropped dropped
cold() { near VmSwap "$(swapped)" 12288 10 1024; }
test_that what_is_cold_is_in_swap_and_what_is_hot_is_not cold
fresh() { near unmapped "$(bytes $guessed file)" "$(cached)" 2 1048576; }
test_that the_report_knows wait_for 10 fresh

## What is left of the cache is older than what is in use.
rest() { echo 16m >$dir/a/memory.reclaim; near VmSwap "$(swapped)" 12288 10 1024; }
test_that more_of_it_goes_and_nothing_else rest
echo "then: ours $(bytes $guessed file), the kernel's $(cached), VmSwap $(swapped) KiB"

off() { echo N0=0 >$dir/a/memory.workingset.refresh_interval && [ -z "$(cat $guessed)" ]; }
test_that nothing_is_told_when_it_is_off off
kill -9 $(cat a.pid)
removed() { wait_for 20 rmdir $dir/a; }
test_that it_is_removed removed
exit 0

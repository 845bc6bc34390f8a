#!/bin/sh
# What is out goes on from zram to the disk behind it: the oldest of the tenant that was named and nobody else's, by the device's own
# figures (bd_stat, mm_stat), and what comes back from there is what went. The disk is another zram; zram0 is swapped to beside it.
# Of the memory of `mem kept` a quarter are pages of one word, which zram keeps as such: they are never written.
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }

disk=$(cat /sys/class/zram-control/hot_add)
echo lz4 >/sys/block/zram$disk/comp_algorithm
echo 64M >/sys/block/zram$disk/disksize

## What cannot be.
refused() {
    "$@" >refused.out 2>refused.err
    is $? $want && grep -q "$word" refused.err || { cat refused.out refused.err; return 1; }
}
want=3
word="pagetide has no compressed swap here"
test_that without_a_device_it_is_said refused pagetide run --write-back-older-than 1m -- true
word="there is no disk behind it"
test_that without_a_disk_it_is_said refused pagetide run --write-back-older-than 1m --write-back-from /dev/zram0 -- true
want=1
word="it holds data"
printf 'precious' | dd of=/dev/zram$disk bs=1 seek=1080 conv=notrunc 2>/dev/null
test_that a_disk_with_something_on_it_is_refused refused pagetide swap on --size 128M --backing /dev/zram$disk
still_there() { is "$(dd if=/dev/zram$disk bs=1 skip=1080 count=8 2>/dev/null)" precious; }
test_that what_was_on_it_is_there still_there
dd if=/dev/zero of=/dev/zram$disk bs=4096 count=1 conv=notrunc 2>/dev/null
want=1
word="in use"
mke2fs -b 4096 /dev/zram$disk >/dev/null && mkdir -p /tmp/mounted && mount -t ext4 /dev/zram$disk /tmp/mounted
test_that a_mounted_disk_is_refused refused pagetide swap on --size 128M --backing /dev/zram$disk
umount /tmp/mounted
dd if=/dev/zero of=/dev/zram$disk bs=65536 count=1024 2>/dev/null

## The tier is made. The story: until Linux 6.15 each processor keeps up to 64 places of the swap that it took some from last, and gives those
## first: the one page by which pagetide found out which places are the tier's went elsewhere, and nothing could be written back.
spare() {
    : >spare$1.out
    taskset -c $1 mem anon 4 >spare$1.out 2>&1 &
    echo $! >spare$1.pid
    wait_for 60 grep -q ^ready spare$1.out
}
# Of zram0 as long as there is nothing else; not a multiple of 64.
some_leave() { for cpu in 0 1; do taskset -c $cpu pagetide reclaim $(cat spare$cpu.pid) 900K || return 1; done; }
spare 0
spare 1
test_that places_of_other_swap_are_kept some_leave
on() { pagetide swap on --size 128M --backing /dev/zram$disk; }
test_that it_is_made on
device=$(awk '$5 == 100 { sub("/dev/", "", $1); print $1 }' /proc/swaps)
[ -n "$device" ] || exit 0
finds() { for cpu in 0 1; do taskset -c $cpu pagetide run --write-back-older-than 1m -- true || return 1; done; }
test_that its_places_are_found finds
# The rest of what was kept is used up: below all of a tenant's pages are counted on.
test_that no_places_of_other_swap_are_kept some_leave
kill -9 $(cat spare0.pid) $(cat spare1.pid)
backed() { is "$(cat /sys/block/$device/backing_dev)" /dev/zram$disk; }
test_that the_disk_is_behind_it backed
# held, read or written: pages, by the kernel.
bd() { awk -v field=$1 '{ print $field }' /sys/block/$device/bd_stat; }
held() { bd 1; }
read_back() { bd 2; }
written() { bd 3; }
used() { awk '{ print $3 }' /sys/block/$device/mm_stat; }

## Two tenants: of a what was idle for 8 s goes on, 6 MiB (1,536 pages) at most; of b nothing.
cat >tiers.toml <<EOF
policy = { by = "cold-age", older-than = "2s", every = "1s" }
write-back-max = "6M"
[tenants.a]
write-back-older-than = "8s"
[tenants.b]
EOF
test_that it_serves serve --config tiers.toml
grep -q serving serve.out || exit 0
# Calls by which serve has written anything, by the kernel: a few at each look, and those that ask for pages.
calls() { awk '$1 == "syscw:" { print $2 }' /proc/$(cat serve.pid)/io; }
first_call=$(calls)
out() { at_least VmSwap "$(status $1 VmSwap)" $2; }
test_that the_old_one_is_inside inside a mem kept 8
old=$(cat a.pid); mv a.out old.out; : >a.out
test_that the_old_one_is_out wait_for 60 out $old 8000
# What one of three takes in memory, before any of it goes on.
before=$(($(used) + $(held) * 4096))
sleep 6
test_that the_new_one_is_inside inside a mem kept 8
new=$(cat a.pid)
test_that its_neighbour_is_inside inside b mem kept 8
b=$(cat b.pid)
test_that the_new_one_is_out wait_for 60 out $new 8000
test_that its_neighbour_is_out wait_for 60 out $b 8000
full() { is "$(written)" 1536; }
test_that as_much_is_written_as_may_be wait_for 60 full
sleep 5
test_that no_more_is_written full
# Since Linux 6.16 a call takes ranges of pages (page_indexes), before one page.
by_calls=$(($(calls) - first_call))
case $(uname -r) in
[0-5].* | 6.[0-9].* | 6.1[0-5].*) by_so_many() { at_least "calls" $by_calls 1536; } ;;
*) by_so_many() { at_most "calls" $by_calls 700; } ;;
esac
test_that pages_are_asked_for_as_the_kernel_takes_them by_so_many
echo "calls that wrote anything: $by_calls"
less() { at_most mem_used_total "$(used)" $((3 * before - 3000000)); }
test_that memory_is_free_for_it less
echo "mem_used_total: of one $before, of three $(used); bd_stat: $(cat /sys/block/$device/bd_stat)"
reasons() { grep -q "wrote back [0-9]* pages of /a from /dev/$device: not accessed for 8s (write-back: " serve.out && ! grep -q "of /b from" serve.out; }
test_that each_write_has_its_reason reasons
status_tells() { pagetide swap status | grep -q "behind it  6 MiB on /dev/zram$disk (6 MiB written, 0 B read back)" || { pagetide swap status; return 1; }; }
test_that status_shows_both_tiers status_tells

## Whose they were, page by page: what lies beside it is not read along. What comes back of the others comes from memory, what comes back of the old one from the disk.
echo 0 >/proc/sys/vm/page-cluster
checked() { kill -USR1 $1 && wait_for 60 grep -q right $2; }
test_that the_neighbours_bytes_are_right checked $b b.out
none_read() { is "$(read_back)" 0; }
test_that nothing_of_it_was_on_the_disk none_read
test_that the_new_ones_bytes_are_right checked $new a.out
few_read() { at_most "pages read" "$(read_back)" 40; }
test_that hardly_any_of_it_was_on_the_disk few_read
test_that the_old_ones_bytes_are_right checked $old old.out
most_read() { at_least "pages read" "$(read_back)" 1480; }
test_that the_old_one_was_on_the_disk most_read
echo "bd_stat: $(cat /sys/block/$device/bd_stat)"
kill -9 $old $new $b
kill $(cat serve.pid)
wait_for 20 sh -c "! [ -e $groups/pagetide ]"

## One program under `run`: a dry run writes nothing, a real one what it says, and all comes back when swap goes off.
first=$(written)
managed() {
    rm -f run.json
    : >run.out
    pagetide run --report run.json --evict-older-than 2s --every 1s --age-every 1s --write-back-older-than 5s "$@" -- mem kept 8 >run.out 2>run.err &
    echo $! >run.pid
    wait_for 60 grep -q ^ready run.out || { cat run.err; return 1; }
}
ended() { kill -9 $(cat run.pid); wait_for 20 test -s run.json; }
dry() { managed --dry-run && sleep 12 && ended && is "$(written)" $first && is "$(field written_pages run.json)" 0; }
test_that a_dry_run_writes_nothing dry
test_that a_program_runs managed
pid=$(cat run.pid)
gone_on() { at_least written "$(($(written) - first))" 1480; }
test_that its_oldest_go_on wait_for 60 gone_on
off() { pagetide swap off --force && kill -0 $pid && checked $pid run.out; }
test_that swap_off_brings_all_back off
test_that it_ends ended
as_kernel() { at_least written_pages "$(field written_pages run.json)" 1480; }
test_that the_report_says_how_many as_kernel
sed -n '/"write_back": {/,/^  }/p' run.json | head -n 20
gone() { ! [ -e /sys/block/$device ] && ! grep -q $device /proc/swaps; }
test_that nothing_is_left gone
kill $pid 2>/dev/null
echo $disk >/sys/class/zram-control/hot_remove
exit 0

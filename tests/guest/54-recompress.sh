#!/bin/sh
# What has lain in zram for long is compressed once more by a better algorithm, by the device's own figures (mm_stat), and comes back right.
# Debian's kernels have no zram that can (CONFIG_ZRAM_MULTI_COMP): there it is refused before anything is made. One that can is built from
# Debian's linux-source-6.12, with the headers of the very kernel that the guest runs (linux-headers-*-cloud-amd64, unpacked):
#     make -C HEADERS M=SOURCE/drivers/block/zram KCFLAGS=-DCONFIG_ZRAM_MULTI_COMP=1 CONFIG_DEBUG_INFO_BTF_MODULES= modules
#     cargo xtask guest suite -k 6.12 -f SOURCE/drivers/block/zram/zram.ko 54-recompress
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }

on() { pagetide swap on --size 128M --recompress zstd; }
refused() { # CODE WORD COMMAND...
    code=$1 word=$2
    shift 2
    "$@" >refused.out 2>refused.err
    is $? $code && grep -q "$word" refused.err || { cat refused.out refused.err; return 1; }
}
test_that without_swap_of_ours_it_is_said refused 1 "no swap that pagetide switched on" pagetide swap recompress
swaps=$(wc -l </proc/swaps)
if ! [ -e /files/zram.ko ]; then
    test_that a_zram_of_one_algorithm_is_said refused 3 CONFIG_ZRAM_MULTI_COMP on
    nothing() { is "$(wc -l </proc/swaps)" "$swaps" && is "$(ls -d /sys/block/zram* | wc -l)" 1; }
    test_that nothing_is_made nothing
    exit 0
fi

other() { swapoff /dev/zram0 && rmmod zram && insmod /files/zram.ko num_devices=0; }
test_that the_other_zram_is_loaded other
test_that what_was_made_with_one_algorithm_is_left pagetide swap on --size 64M
test_that it_is_told refused 3 "made with one algorithm" pagetide swap recompress
test_that it_goes pagetide swap off
test_that two_algorithms_are_taken on
device=$(awk '$5 == 100 { sub("/dev/", "", $1); print $1 }' /proc/swaps)
[ -n "$device" ] || exit 0
used() { awk '{ print $3 }' /sys/block/$device/mm_stat; }

: >old.out
mem kept 24 >old.out 2>&1 &
old=$!
wait_for 60 grep -q ^ready old.out
test_that all_of_it_leaves pagetide reclaim $old --all
before=$(used)
young() { pagetide swap recompress --older-than 1h && is "$(used)" "$before"; }
test_that what_came_lately_stays_as_it_is young
sleep 3
once_more() { pagetide swap recompress --older-than 2s --json >once.json && cat once.json; }
test_that what_has_lain_there_is_compressed_once_more once_more
now=$(used)
cat once.json
# Half of its pages are chance, a quarter one word; of 1,536 others each takes some 400 bytes by lz4.
less() { at_least "bytes won" $((before - now)) 150000; }
test_that it_takes_less_memory less
as_kernel() { is "$(field memory_before_bytes once.json)" "$before" && is "$(field memory_bytes once.json)" "$now" && is "$(field algorithm once.json)" zstd; }
test_that the_figures_are_the_devices as_kernel
status_tells() { pagetide swap status | grep -q "once more  by zstd" || { pagetide swap status; return 1; }; }
test_that status_tells_of_it status_tells
again() { pagetide swap recompress --older-than 0s && is "$(used)" "$now"; }
test_that once_is_enough again
checked() { kill -USR1 $old && wait_for 60 grep -q right old.out; }
test_that its_bytes_are_right checked

## `serve` does the same now and then, and says so.
mem kept 16 >new.out 2>&1 &
new=$!
wait_for 60 grep -q ^ready new.out
test_that more_of_it_leaves pagetide reclaim $new --all
before=$(used)
test_that it_serves serve --recompress-older-than 2s
told() { grep -q "compressed once more by zstd: what had lain in /dev/$device for 2s is .* smaller" serve.out && at_least "bytes won" $((before - $(used))) 100000; }
test_that it_is_done_and_told wait_for 60 told
kill $(cat serve.pid)
wait_for 20 sh -c "! [ -e $groups/pagetide ]"
checked() { kill -USR1 $new && wait_for 60 grep -q right new.out; }
test_that these_bytes_are_right checked
kill $new
test_that it_goes_off pagetide swap off
gone() { ! [ -e /sys/block/$device ] && kill -0 $old; }
test_that nothing_is_left gone
kill $old
exit 0

#!/bin/sh
# Ages of pages whose ages are known: half of a process's pages are touched every 2 s, half never.
#
# What is never touched must be old, all of it: nothing but the program sets an accessed bit. What is
# touched may look old here: clearing a bit leaves the page in the TLB (as on a real processor), and QEMU's
# holds tens of thousands of pages, until something switches address spaces. So two processes are watched:
# `flush` empties its TLB before it touches, as real processors lose entries by themselves, and must be
# right; how much of `plain` is right is printed, not required. Both have 16 MiB. Clearing may take longer than
# by default: this processor is emulated.
. /suite/lib

new_group ages
start ages 16 2000 flush && flushing=$pid
start ages 16 2000 && plain=$pid
start anon 8 && sleeper=$pid
report --cgroup $group --for 18s --age-every 1s --max-wait 900ms
status=$?
half=$((8 << 20))

# share PID [OTHER]: percent of the touched half that is not called old. The program's own pages are old, but
# for some 20, an error of 1 % at most, and the OTHER that emptying the TLB changes are not.
share() {
    own=$(($(of $1 mapped_bytes) - 2 * half - ${2:-0}))
    old=$(($(of $1 older_than_10s_bytes) - half - own))
    echo $((old > 0 ? 100 - old * 100 / half : 100))
}
never_is_old() { at_least older_than_10s_bytes "$(of $1 older_than_10s_bytes)" $half; }
# 100 in all of ten runs; what the machine does beside must not fail this.
touched_is_young() { at_least "percent right" "$(share $1 262144)" 97; }
sleeper_is_old() { at_least older_than_10s_bytes "$(of $sleeper older_than_10s_bytes)" $half; }
no_bin_is_lost() { is $(($(aged 0) + $(field unknown_age_bytes))) "$(field resident_bytes)"; }

test_that the_report_ended_well is $status 0
test_that never_touched_is_old never_is_old $flushing
test_that never_touched_is_old_plain never_is_old $plain
test_that one_that_sleeps_grows_old sleeper_is_old
test_that touched_is_young touched_is_young $flushing
test_that bins_and_unknown_are_resident no_bin_is_lost
echo "right of what is touched: $(share $flushing 262144) % with a TLB emptied, $(share $plain) % with QEMU's; unknown $(field unknown_age_bytes)"
bins
kill_group
exit 0

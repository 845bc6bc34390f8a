#!/bin/sh
# What was swapped out on zram, beside what the kernel says: private memory by its entries, shared memory
# where the kernel tells. An empty entry of shared memory is not guessed to be in swap.
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }

# swap_out KIND BYTES: of a group with one such process.
swap_out() {
    new_group $1
    start $1 16
    echo $2 >$group/memory.reclaim 2>/dev/null
    report --cgroup $group --for 1s --age-every 1s
    swapped=$(field swapped_bytes)
    says=$(cat $group/memory.swap.current)
    echo "$1: swapped_bytes $swapped, smaps_rollup $(rollup $pid Swap), memory.swap.current $says"
}
some_went() { at_least memory.swap.current $says 4000000; }
# A page that was read back may keep its place in swap: the kernel counts it twice, we do not.
as_rollup() { near swapped_bytes "$swapped" "$(rollup $pid Swap)"; }
as_group() { near swapped_bytes "$swapped" $says 1 262144; }
not_more() { at_most swapped_bytes "$swapped" $((says + says / 100 + 262144)); }
resident() { near resident_bytes "$(field resident_bytes)" "$(rollup $pid Rss)" 1 65536; }

swap_out anon 8M
test_that some_is_in_swap some_went
test_that swapped_is_that_of_smaps as_rollup
test_that swapped_is_that_of_the_group as_group
test_that resident_is_what_is_left resident
kill_group

swap_out memfd 8M
test_that some_shared_is_in_swap some_went
test_that shared_is_not_over_the_kernels not_more
test_that resident_of_shared_is_what_is_left resident
kill_group

# In memory and never mapped in: entries are empty, and nothing is in swap.
swap_out lazymemfd 0
test_that what_is_not_mapped_in_is_not_swapped is "$swapped" 0
kill_group
exit 0

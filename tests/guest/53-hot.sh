#!/bin/sh
# programs: cached
# Hot memory beside a file of four times the limit that is read in the same wall, on version 2: page cache goes, and no hot page. By VmSwap as the
# program itself asks the kernel, and by the group's own files; beside it what the kernel does alone with the same limit.
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }
disk 256
# What zram keeps of it is little: this is of pages that are read, not of a device.
dd if=/dev/zero of=$where/file bs=1M count=192 2>/dev/null
sync
# 200, 240 and 960 MiB of a host, as of 40.
hot="cached 40 20 $where/file"
said() { awk -v word=$1 '{ for (i = 1; i < NF; i++) if ($i == word) print $(i + 1) }' hot.out; }
drop() { echo 1 >/proc/sys/vm/drop_caches; }

## The kernel alone.
new_group alone
echo 48M >$group/memory.max
drop
alone() { sh -c "echo 0 >$group/cgroup.procs; exec $hot" >hot.out 2>&1 || { cat hot.out; return 1; }; }
test_that the_kernel_alone_holds_it alone
echo "alone: read $(said read) MiB, most VmSwap $(said swapped) KiB; swap.peak $(cat $group/memory.swap.peak 2>/dev/null) $(grep -E '^(pgsteal|pgscan|workingset_refault_anon|workingset_refault_file) ' $group/memory.stat | tr '\n' ' ') max $(word $group/memory.events max)"
kill_group

## Under pagetide.
for every in 2s 500ms; do
    drop
    before=$(out)
    begin() {
        rm -f run.json
        pagetide run --report run.json --memory-max 48M --age-every $every -- $hot >hot.out 2>hot.err &
        pid=$!
        wall_stands && cp_stat
    }
    wall_stands() { wait_for 60 has_wall; }
    has_wall() { is "$(cat $(wall_of)/memory.max)" 50331648; }
    # What its group counts last.
    cp_stat() {
        while wall=$(wall_of 2>/dev/null) && [ -d "$wall" ] && kill -0 $pid 2>/dev/null; do
            cat $wall/memory.stat >stat.now 2>/dev/null && [ -s stat.now ] && mv stat.now stat.last
            cat $wall/memory.events >events.now 2>/dev/null && [ -s events.now ] && mv events.now events.last
            cat $wall/memory.peak >peak.now 2>/dev/null && [ -s peak.now ] && mv peak.now peak.last
            sleep 0.5
        done
        wait $pid
    }
    test_that it_runs_$every begin
    all_read() { at_least read "$(said read)" 192; }
    test_that all_is_read_$every all_read
    # 2% is what the host's test allows (docs/known-gaps.md).
    stays() { at_most VmSwap "$(said swapped)" 819; }
    test_that no_hot_page_leaves_$every stays
    peak() { at_most memory.peak "$(cat peak.last)" 50331648; }
    test_that the_peak_is_the_limit_$every peak
    alive() { is "$(word events.last oom_kill)" 0; }
    test_that nothing_is_killed_$every alive
    echo "$every: read $(said read) MiB, most VmSwap $(said swapped) KiB, pswpout $(($(out) - before)); peak $(cat peak.last) $(grep -E '^(pgsteal|pgscan|workingset_refault_anon|workingset_refault_file) ' stat.last | tr '\n' ' ') max $(word events.last max)"
done
umount $where
exit 0

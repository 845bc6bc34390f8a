#!/bin/sh
# programs: sleeper
# What `serve` must bear, on version 2: garbage in every file, readers that never read, 500 processes at once, files read while tenants come and go,
# processes that die while they give. A bystander keeps all it has; nothing stays open.
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }

test_that it_serves serve --look-budget 50%
mkdir $dir/kept $dir/a $dir/a/b
test_that a_bystander_is_inside inside kept sleeper 16
kept=$(cat kept.pid)
fds() { ls /proc/$(cat serve.pid)/fd | wc -l; }
resident() { status $(cat serve.pid) VmRSS; }
answers() { at_least anon "$(word $dir/kept/memory.stat anon)" 16000000; }
wait_for 60 answers
open=$(fds)
# Four more: some descriptors are open only while a scan runs.
closed() { at_most descriptors "$(fds)" $((open + 4)); }

## Garbage.
settings() { cat $dir/a/memory.min $dir/a/memory.low $dir/a/memory.high $dir/a/memory.max; }
settings >settings.before
garbage() {
    files=$(find $dir -type f)
    at_least files "$(echo "$files" | wc -l)" 60 || return 1
    for file in $files; do
        for text in -1 N0= "1 2 3 x" = 999999999999999999999999999999 nonsense; do
            printf '%s' "$text" 2>/dev/null >$file && { echo "$file took '$text'"; return 1; }
        done
    done
    settings | cmp - settings.before && answers
}
test_that every_file_refuses_garbage garbage

## Who opens and never reads.
silent() {
    for n in $(seq 100); do sleep 30 <$dir/a/memory.stat & silent="$silent $!"; done
    answers && kill $silent
}
test_that who_never_reads_holds_nobody_up silent
test_that nothing_stays_open wait_for 30 closed

## 500 at once, twice.
bomb() {
    mkdir -p $dir/bomb
    sh -c "echo 0 >$dir/bomb/cgroup.procs; for n in \$(seq 500); do sleep 300 & done; wait" &
    wait_for 60 all_there && is "$(wc -l <$dir/bomb/cgroup.procs)" "$(wc -l <$groups/pagetide/bomb/cgroup.procs)" && answers || return 1
    echo 1 >$groups/pagetide/bomb/cgroup.kill
    wait_for 60 rmdir $dir/bomb
}
all_there() { is "$(wc -l <$dir/bomb/cgroup.procs)" 501; }
test_that five_hundred_are_of_their_tenant bomb
few() { at_most descriptors "$(fds)" $((open + 20)); }
test_that they_are_let_go_of wait_for 30 few
# (What one such bomb took is kept for the next: memory, and what another thread reads by.)
open=$(fds) memory=$(resident)
ls -l /proc/$(cat serve.pid)/fd | sed 's/.* -> //' | sort >open.before
test_that five_hundred_come_once_more bomb

## Files are read while tenants come and go with a process.
churn() {
    for reader in 1 2; do
        (while :; do cat $(find $dir -type f) >/dev/null 2>&1; done) &
        readers="$readers $!"
    done
    for n in $(seq 40); do
        mkdir $dir/c$n $dir/c$n/b && echo 4m >$dir/c$n/memory.low && once c$n/b true && rmdir $dir/c$n/b $dir/c$n || { kill $readers; return 1; }
    done
    kill $readers
    answers
}
test_that files_are_read_while_the_tree_changes churn

## Processes that die while they give.
dies() {
    mkdir $dir/d
    for n in $(seq 8); do
        inside d mem anon 8 && sleep 2 || return 1
        (echo 8m >$dir/d/memory.reclaim) 2>/dev/null &
        giver=$!
        usleep $((n * 3000))
        kill -9 $(cat d.pid)
        wait $giver
    done
    wait_for 30 rmdir $dir/d && answers
}
test_that who_dies_while_it_gives_leaves_nothing dies

test_that nothing_stays_open_at_the_end wait_for 30 closed
ls -l /proc/$(cat serve.pid)/fd | sed 's/.* -> //' | sort >open.after
diff open.before open.after | head -n 20
echo "descriptors $open before, $(fds) after; resident $memory and $(resident) KiB"
grown() { at_most "KiB of serve" "$(resident)" $((memory + 8192)); }
test_that it_has_not_grown grown
test_that the_bystander_has_all checked kept
quiet() { [ ! -s serve.err ] || { tail -n 3 serve.err; return 1; }; }
test_that it_complains_of_nothing quiet
kill -9 $kept
exit 0

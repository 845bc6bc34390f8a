#!/bin/sh
# What cannot be, on version 2: where there is no swap, no group for a limit, no right, no such process, or somebody manages it already, that is said
# with what to do and the exit code of the interface, before the program starts; what runs beside it is as it was.
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }
chmod 777 .

# A process to be left alone, and the kernel's figures of it and of the machine.
: >idle.out
mem kept 8 >idle.out 2>&1 &
idle=$!
wait_for 60 grep -q ^ready idle.out
marks() {
    ls -d $groups/*/ /sys/block/zram* 2>/dev/null
    awk 'NR > 1 { print $1, $3 }' /proc/swaps
    grep -E '^(State|VmSize|VmSwap|TracerPid|Threads)' /proc/$idle/status
    cat /proc/$idle/cgroup /proc/$idle/maps
}
# refused STATUS WORD COMMAND...: on standard error, with a hint.
refused() {
    want=$1 word=$2
    shift 2
    marks >marks.before
    "$@" >refused.out 2>refused.err
    is $? $want && grep -q "$word" refused.err && grep -q "hint:" refused.err && ! grep -q panicked refused.err &&
        is "$(cat refused.out)" "" || { cat refused.out refused.err; return 1; }
    marks >marks.after
    [ ! -e started ] && same marks.before marks.after
}
# goes_on WORD COMMAND...: it starts, and is told of that.
goes_on() {
    word=$1
    shift
    "$@" >on.out 2>on.err
    is $? 0 && [ -e started ] && rm started && { [ -z "$word" ] || grep -q "$word" on.err; } || { cat on.out on.err; return 1; }
}
verbs="attach:--for:1s reclaim:--all stat detach"
# each_verb STATUS WORD TARGET...
each_verb() {
    code=$1 what=$2
    shift 2
    for verb in $verbs; do
        refused $code "$what" pagetide $(echo $verb | tr : ' ') "$@" || { echo "$verb $*"; return 1; }
    done
}

## Processes that are not, or that nobody can mean.
test_that no_such_process each_verb 1 4194999 4194999
test_that a_thread_of_the_kernel each_verb 1 "thread of the kernel" 2
sh -c 'true & exec sleep 1000' &
parent=$!
zombie_of() { zombie=$(awk -v of=$parent '$3 == "Z" && $4 == of { print $1 }' /proc/[0-9]*/stat 2>/dev/null) && [ -n "$zombie" ]; }
wait_for 20 zombie_of
zombie_of
test_that a_zombie each_verb 1 zombie $zombie
kill $parent
test_that the_first_process refused 1 "every process" pagetide stat 1
test_that the_first_group refused 1 "every process" pagetide stat --cgroup /
test_that no_such_group refused 1 none-such pagetide attach --for 1s --cgroup none-such
test_that whom_nobody_manages refused 1 $idle pagetide detach $idle

## No right.
user() { su nobody -s /bin/sh -c "$*"; }
test_that a_user_runs_nothing_in_a_limit refused 3 "" user pagetide run --memory-max 16M -- touch started
test_that a_user_manages_nobody_elses refused 3 "another user" user pagetide attach --for 1s $idle
test_that a_user_parks_nobody_elses refused 3 "another user" user pagetide reclaim --all $idle
test_that a_user_brings_nobody_elses_back refused 3 "another user" user pagetide detach --bring-back $idle
test_that a_user_makes_no_swap refused 3 root user pagetide swap on --size 16M
test_that a_user_removes_no_swap refused 3 root user pagetide swap off
test_that a_user_sees_no_demo refused 3 "sudo pagetide demo" user pagetide demo
test_that a_user_goes_on goes_on "" user pagetide run --best-effort --memory-max 16M -- touch started

## Control groups that are read-only, or not there.
within() { unshare -m sh -c "$1 && shift && exec \"\$@\"" sh "$@"; }
read_only="mount -o remount,bind,ro $groups"
none="umount -l $groups"
test_that read_only_groups_hold_no_limit refused 3 read-only within "$read_only" pagetide run --memory-max 16M -- touch started
test_that no_groups_hold_no_limit refused 3 controller within "$none" pagetide run --memory-max 16M -- touch started
test_that read_only_groups_go_on goes_on "" within "$read_only" pagetide run --best-effort --memory-max 16M -- touch started
test_that no_groups_go_on goes_on "" within "$none" pagetide run --best-effort --memory-max 16M -- touch started
test_that without_a_limit_they_do_not_matter goes_on "" within "$read_only" pagetide run -- touch started

## No swap at all.
swapoff /dev/zram0
is_none() { is "$(wc -l </proc/swaps)" 1; }
test_that there_is_none is_none
test_that nothing_starts_without_swap refused 3 "pagetide swap on" pagetide run -- touch started
test_that nothing_starts_in_a_limit_without_swap refused 3 "no swap" pagetide run --memory-max 16M -- touch started
test_that nothing_is_managed_without_swap refused 3 "no swap" pagetide attach --for 1s $idle
test_that nothing_is_parked_without_swap refused 3 "no swap" pagetide reclaim --all $idle
test_that it_goes_on_without_swap goes_on "no swap" pagetide run --best-effort -- touch started
test_that there_is_none_to_remove refused 1 "no swap that pagetide" pagetide swap off

## Swap that is full: what fits leaves, the rest stays, and who asked is told; the program has all of its bytes.
test_that the_hint_helps pagetide swap on --size 24M
: >large.out
mem kept 64 >large.out 2>&1 &
large=$!
wait_for 60 grep -q ^ready large.out
full() {
    pagetide reclaim --all $large >full.out 2>full.err
    is $? 1 && grep -q "swap is full" full.err && grep -q "hint:" full.err || { cat full.out full.err; return 1; }
    at_least VmSwap "$(status $large VmSwap)" 16000 && at_most VmSwap "$(status $large VmSwap)" 24576
}
test_that full_swap_is_told full
echo "VmSwap $(status $large VmSwap) VmRSS $(status $large VmRSS) KiB; $(grep SwapFree /proc/meminfo); $(tail -n 1 /proc/swaps)"
test_that it_starts_where_swap_is_full goes_on "" pagetide run -- touch started
nothing_more() {
    marks >marks.before
    pagetide reclaim --all $idle >full.out 2>full.err
    is $? 1 && grep -q "swap is full" full.err && grep -q "paged out 0 B" full.out || { cat full.out full.err; return 1; }
    marks >marks.after
    same marks.before marks.after
}
test_that nothing_more_leaves nothing_more
right_large() { kill -USR1 $large && wait_for 60 grep -q right large.out; }
test_that its_bytes_are_right right_large
kill -9 $large
test_that swap_goes_off pagetide swap off
swapon /dev/zram0

## Two managers for one process.
managed_by() { pagetide attach $idle >by$1.out 2>by$1.err; echo $? >by$1.code; }
told_one() { grep -qs . by?.code; }
told_both() { grep -qs . by1.code && grep -qs . by2.code; }
one_of_two() {
    rm -f by?.code
    managed_by 1 &
    managed_by 2 &
    wait_for 60 told_one && is "$(cat by?.code)" 1 && grep -q "hint:" by?.err || { cat by?.err; return 1; }
    wait_for 60 pagetide detach $idle && wait_for 20 told_both && is "$(cat by?.code | sort | tr '\n' ' ')" "0 1 "
}
test_that one_of_two_managers_is_refused one_of_two
begin_managed() { managed -- mem kept 4; }
test_that a_program_runs_managed begin_managed
pid=$(cat run.pid)
test_that it_gets_no_second_manager refused 1 "manages it" pagetide attach --for 1s $pid
test_that its_manager_stays pagetide stat $pid
stop

## A process that ends at any step of ours: an end or an error, never a hang. Its number is nobody's afterwards.
ends_at_step() {
    for step in 0 1 2 3 4 5 6; do
        for verb in $verbs report:--for:1s; do
            sleep 1000 &
            target=$!
            (usleep $((step * 300000)); kill -9 $target) &
            timeout 60 pagetide $(echo $verb | tr : ' ') $target >step.out 2>step.err
            code=$?
            wait $target 2>/dev/null
            case $code in 0) ;; 1) grep -q hint: step.err ;; *) false ;; esac && ! grep -q panicked step.err ||
                { echo "$verb at step $step: $code"; cat step.err; return 1; }
            echo $code >>codes
        done
    done
}
test_that a_process_ends_at_each_step ends_at_step
echo "ended with 0: $(grep -c 0 codes), with 1: $(grep -c 1 codes)"
cat >again.sh <<'END'
of() { awk -v of=$1: '$1 == of { print $2 }' /proc/$first/status; }
mem kept 8 >first.out & first=$!
for try in $(seq 100); do grep -q ready first.out && break; sleep 0.2; done
pagetide attach $first --evict-older-than 1s --every 1s --age-every 500ms 2>attach.err & manager=$!
for try in $(seq 100); do [ "$(of VmSwap)" -gt 6000 ] && break; sleep 0.2; done
echo first $(of VmSwap)
kill -9 $first; wait $first
echo $((first - 1)) >/proc/sys/kernel/ns_last_pid
mem kept 8 >second.out & second=$!
sleep 4
echo same $((first == second)) second $(of VmSwap)
pagetide stat $second >/dev/null 2>&1; echo stat $?
wait $manager; echo manager $?
kill -9 $second
END
another() {
    timeout 120 unshare -f -p --mount-proc sh -c 'sh again.sh; exit $?' >again.out 2>again.err
    grep -q "^same 1 second 0$" again.out && grep -q "^stat 1$" again.out && grep -q "^manager [01]$" again.out || { cat again.out again.err attach.err; return 1; }
}
test_that a_number_that_is_used_again_is_another another
grep -E "^(first|same|stat|manager)" again.out

## Who was beside all of it.
right() { kill -USR1 $idle && wait_for 60 grep -q right idle.out && is "$(status $idle VmSwap)" 0; }
test_that who_was_beside_is_as_it_was right
kill -9 $idle
exit 0

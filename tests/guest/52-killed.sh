#!/bin/sh
# programs: checked forkserver
# Pagetide killed at random instants on version 2, one time after the other: the manager, the guard and then the manager, or all that is ours in the
# moment of a start. The program's answer is right, its limit is what the kernel's files say it is, the next manager has its own, and nothing is left.
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }
ROUNDS=4
seed=$(awk 'BEGIN { srand(); print int(rand() * 1000000) }')
echo "seed $seed"
# chance BELOW: sets picked.
chance() {
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    picked=$((seed / 65536 % $1))
}
busy="--evict-older-than 300ms --every 100ms --age-every 100ms"
groups_there() { ls -d $groups/*/ 2>/dev/null; }
before=$(groups_there)

# named manager|guard: processes of ours, found by one look, as a start is over soon. (The brackets leave out who looks.)
named() { grep -l "[_]_$1" /proc/[0-9]*/cmdline 2>/dev/null | cut -d / -f 3; }
some_of_ours() { [ -n "$(named manager)$(named guard)" ]; }
none_of_ours() { is "$(named manager)$(named guard)" ""; }
# Touches of `checked`, and whether it has filled its memory.
touches() { od -A n -t d8 -N 8 progress | tr -d ' '; }
filled() { is "$(od -A n -t d8 -j 16 -N 8 progress | tr -d ' ')" 1; }
goes_on() {
    first=$(touches)
    wait_for 20 more
}
more() { at_least touches "$(touches)" $((first + 64)); }
# ended CODE: the program's answer, and nothing of ours outlives it.
ended() {
    kill -TERM $pid
    wait $pid
    is $? 7 && is "$(cat program.out)" "right 3072" && is "$(cat program.err)" "" && wait_for 20 none_of_ours
}
started() {
    rm -f progress
    pagetide run "$@" -- checked 12 progress >program.out 2>program.err &
    pid=$!
    wait_for 60 filled
}
# The next one has what it is given and no limit of the last one, works, and lets go.
next() {
    pagetide attach $busy --memory-high 11M $pid >next.out 2>next.err &
    manager=$!
    wait_for 60 pagetide stat $pid && wait_for 60 left && pagetide detach $pid && wait $manager || { cat next.err; return 1; }
}
left() { at_least VmSwap "$(status $pid VmSwap)" 6000; }
pause() { chance 15; usleep $((picked * 100000)); }

# The manager alone, without a limit; no guard is there.
manager() {
    started $busy && pause && kill -9 $(named manager) && goes_on && next && ended
}
# The manager: its guard lifts the limit.
walled() {
    started $busy --memory-max 10M || return 1
    wall=$(wall_of)
    is "$(cat $wall/memory.max)" 10485760 && pause && kill -9 $(named manager) && wait_for 20 lifted && goes_on && next && ended && wait_for 20 unwalled
}
lifted() { is "$(cat $wall/memory.max)" max; }
# A start with a limit takes away what a killed manager left.
unwalled() { pagetide run --memory-max 64M -- true && [ ! -d $wall ]; }
# The guard, then the manager: the wall stays as it is until the next start.
both() {
    started $busy --memory-max 10M || return 1
    wall=$(wall_of)
    pause
    kill -9 $(named guard) && sleep 0.2 && kill -9 $(named manager) && sleep 1 && is "$(cat $wall/memory.max)" 10485760 && goes_on &&
        pagetide run --memory-max 64M -- true && lifted && next && ended && wait_for 20 unwalled
}
# All that is ours as it starts: the program has not begun, and that is said, or does not notice.
start() {
    rm -f progress
    pagetide run $busy --memory-max 10M -- checked 12 progress >program.out 2>program.err &
    pid=$!
    wait_for 60 some_of_ours
    chance 10
    usleep $((picked * 50000))
    # Whoever starts somebody else in this moment is followed by that one.
    killed=
    for try in $(seq 500); do
        ours="$(named guard) $(named manager)"
        [ "$ours" != " " ] && kill -9 $ours 2>/dev/null && killed=1
        [ "$ours" = " " ] && break
        usleep 10000
    done
    [ -n "$killed" ] || { echo "nobody was killed"; return 1; }
    wait_for 30 begun_or_ended
    if filled >/dev/null 2>&1; then
        echo begun >>starts
        goes_on && ended && pagetide run --memory-max 64M -- true
    else
        echo refused >>starts
        wait $pid
        is $? 1 && grep -q "cannot run" program.err && is "$(cat program.out)" "" && wait_for 20 none_of_ours
    fi
}
begun_or_ended() { filled || ! kill -0 $pid 2>/dev/null; }
# A pre-fork server with children that check what they inherited: its manager is killed now and again.
forks() {
    [ -s forks.alone ] || forkserver --mib 8 --forks 12 --rest-ms 1500 >forks.alone || return 1
    pagetide run $busy $1 -- forkserver --mib 8 --forks 12 --rest-ms 1500 >forks.out 2>forks.err &
    pid=$!
    pause
    sleep 1
    kill -9 $(named manager) && { wait $pid; is $? 0; } && same forks.alone forks.out && is "$(cat forks.err)" "" && wait_for 20 none_of_ours &&
        pagetide run --memory-max 64M -- true
}

begin=$(out)
for round in $(seq $ROUNDS); do
    for kind in manager walled both start; do
        test_that ${kind}_$round $kind
    done
    test_that forks_$round forks "$([ $((round % 2)) = 0 ] && echo --memory-max 14M)"
    kill -9 $(named guard) $(named manager) $(pidof checked forkserver) 2>/dev/null
done
echo "pswpout $(($(out) - begin)) in $((ROUNDS * 5)) rounds; killed as it started: begun $(grep -c begun starts), not begun and said so $(grep -c refused starts)"
test_that pages_left at_least pswpout $(($(out) - begin)) $((ROUNDS * 5 * 1000))
as_before() { is "$(groups_there)" "$before"; }
test_that no_group_is_left wait_for 20 as_before
test_that nobody_is_left none_of_ours
exit 0

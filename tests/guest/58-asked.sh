#!/bin/sh
# programs: sleeper
# installed: setpriv
# Who waits, watches and scrapes on version 2: poll of files, `top`, metrics on TCP with a token, and on a socket with none.
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }

test_that it_serves serve --listen 127.0.0.1:9477 --listen unix:$PWD/metrics --token-file $PWD/token --history none
mkdir $dir/a && mkdir $dir/b
echo 2000 >$dir/node0/workingset_report/page_age_intervals
for name in a b; do
    echo N0=1000 >$dir/$name/memory.workingset.refresh_interval
    test_that a_program_is_inside_$name inside $name sleeper 16
done
a=$(cat a.pid)

## poll: who waits for one tenant is woken by that tenant alone, by what happens there alone.
# waits NAME FILE: in the background.
waits() {
    polled $dir/$2 60 >$1.polled 2>&1 &
    wait_for 20 grep -q ready $1.polled || { cat $1.polled; return 1; }
}
woken() { is "$(tail -n 1 $1.polled)" woken; }
asleep() { is "$(tail -n 1 $1.polled)" ready; }
test_that one_waits_for_events_of_a waits a.events a/memory.events
test_that one_waits_for_events_of_b waits b.events b/memory.events
threshold() { echo N0=500 >$dir/a/memory.workingset.report_threshold && grep -q N0=500 $dir/a/memory.workingset.report_threshold; }
test_that reports_under_pressure_are_half_a_second_apart threshold
test_that one_waits_for_a_report waits a.report a/memory.workingset.page_age
limited() { echo 8m >$dir/a/memory.max && wait_for 60 out_is; }
out_is() { at_least VmSwap "$(status $a VmSwap)" 7000; }
test_that a_limit_is_held limited
# It goes through all of its memory, and comes to the limit.
hit() { kill -USR1 $a && wait_for 60 woken a.events; }
test_that a_limit_that_is_hit_wakes hit
told() { at_least "max of a" "$(word $dir/a/memory.events max)" 1; }
test_that it_is_told told
test_that a_report_under_pressure_wakes wait_for 30 woken a.report
test_that nobody_else_is_woken asleep b.events
gone() { kill -9 $(cat b.pid) && wait_for 30 rmdir $dir/b && wait_for 30 not_asleep; }
not_asleep() { ! asleep b.events; }
test_that the_end_of_a_tenant_wakes gone
alive() { kill -0 $a && wait_for 60 touched; }
touched() { at_least lines "$(wc -l <a.out)" 2; }
test_that all_of_a_is_right alive

## Metrics.
scrape() { wget -q -O scrape --header "Authorization: Bearer $(cat token)" http://127.0.0.1:9477/metrics; }
test_that a_scrape_with_the_token scrape
figure() { awk -v name="pagetide_$1{tenant=\"/a\"}" '$1 == name { print $2 }' scrape; }
figures() {
    scrape && near swapped "$(figure swapped_bytes)" "$(($(status $a VmSwap) * 1024))" 2 131072 &&
        near charged "$(figure charged_bytes)" "$(cat $groups/pagetide/a/memory.current)" 2 131072
}
test_that its_figures_are_the_kernels wait_for 20 figures
refused() {
    for header in "Authorization: Bearer wrong" "X-Nothing: 1"; do
        wget -q -O nothing --header "$header" http://127.0.0.1:9477/metrics 2>/dev/null && { echo "it was answered: $header"; return 1; }
    done
    is "$(stat -c %a token)" 600 && is "$(stat -c %a metrics)" 600
}
test_that none_without_it refused

## Root that may trace nobody is told nothing, by files and by the control socket.
untraced() { /usr/bin/setpriv --bounding-set -sys_ptrace --inh-caps -sys_ptrace "$@"; }
told_nothing() {
    for words in "cat $dir/a/memory.stat" "cat $dir/a/memory.workingset.page_age" "pagetide stat /a" "pagetide report /a" "pagetide reclaim /a 1M"; do
        untraced $words >untraced.out 2>&1 && { echo "$words: $(head -n 2 untraced.out)"; return 1; }
    done
    untraced cat /proc/$a/status >/dev/null
}
test_that root_that_may_not_trace_is_told_nothing told_nothing

## A table of tenants, as `serve` has them.
watched() { pagetide top --by tenant --once >top.out 2>&1 && grep /a top.out && grep -q "$1" top.out; }
test_that top_shows_it watched MiB
ends() { kill -9 $a; wait_for 20 rmdir $dir/a; }
test_that it_ends ends

exit 0

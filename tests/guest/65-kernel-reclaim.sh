#!/bin/sh
# programs: sleeper
# Reclaim by the kernel itself, on version 2, wakes clients that poll reports: by kswapd when the host really runs short, and at the limit of a
# group. The root's budget is set and not reached, and pagetide reclaims nothing by itself.
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }

printf '[pressure]\navailable-low = 0\n' >quiet.toml
test_that it_serves serve --config $PWD/quiet.toml
echo 900m >$dir/memory.max
mkdir $dir/a $dir/kept
new_group limited
test_that a_group_of_the_host_is_found wait_for 30 test -e $dir/host/limited/memory.workingset.page_age
echo 64m >$dir/kept/memory.min
for name in a kept; do test_that a_program_is_inside_$name inside $name sleeper 16; done
for one in a kept host host/limited; do
    echo N0=500 >$dir/$one/memory.workingset.refresh_interval
    echo N0=500 >$dir/$one/memory.workingset.report_threshold
done
node=$dir/node0/workingset_report
echo 500 >$node/refresh_interval
echo 500 >$node/report_threshold

# poll_all: one client for each report, in the background. polled.NAME has what it says.
reports="a kept host limited root"
report_of() {
    case $1 in
    root) echo $node/page_age ;;
    limited) echo $dir/host/limited/memory.workingset.page_age ;;
    *) echo $dir/$1/memory.workingset.page_age ;;
    esac
}
poll_all() {
    for one in $reports; do
        polled $(report_of $one) 300 >polled.$one 2>&1 &
        echo $! >polled.$one.pid
    done
    for one in $reports; do wait_for 20 grep -q ready polled.$one || { cat polled.$one; return 1; }; done
}
end_polls() {
    for one in $reports; do kill $(cat polled.$one.pid) 2>/dev/null; done
    return 0
}
woken() { for one in "$@"; do is "$one $(tail -n 1 polled.$one)" "$one woken" || return 1; done; }
asleep() { for one in "$@"; do is "$one $(tail -n 1 polled.$one)" "$one ready" || return 1; done; }

## Without reclaim, and by reclaim on request, no client is woken.
test_that all_poll poll_all
sleep 3
test_that no_client_is_woken_without_reclaim asleep $reports
requested() { asks a 4 && sleep 2 && asleep $reports; }
test_that no_client_is_woken_by_a_request requested

## A limit of a group outside of the tenants.
echo 16M >$group/memory.max
start sweep 32
test_that reclaim_at_a_limit_wakes_the_group_and_those_above wait_for 10 woken limited host root
test_that no_other_client_is_woken_by_a_limit asleep a kept
echo "limited: $(grep -E '^(max|high) ' $group/memory.events.local | tr '\n' ' ')$(grep pgscan $group/memory.stat | tr '\n' ' ')"
echo "host: $(grep -E '^pgscan' /proc/vmstat | tr '\n' ' ')"
kill_group
end_polls

## kswapd: programs outside of the tenants take memory until it runs.
new_group eater
test_that all_poll_again poll_all
kswapd() { word /proc/vmstat pgscan_kswapd; }
before=$(kswapd) kept_before=$(word $groups/pagetide/kept/memory.stat pgscan_kswapd)
sleep 2
test_that no_client_is_woken_before asleep a kept host root
eaten=0
while [ $(kswapd) -eq $before ] && [ $eaten -lt 1200 ]; do
    start anon 32 || break
    eaten=$((eaten + 32))
done
test_that kswapd_ran at_least pgscan_kswapd "$(kswapd)" $((before + 1))
test_that kswapd_wakes wait_for 10 woken a host root
echo "$eaten MiB eaten, pgscan_kswapd $before to $(kswapd); of a $(word $groups/pagetide/a/memory.stat pgscan_kswapd)"
echo "of what is kept $kept_before to $(word $groups/pagetide/kept/memory.stat pgscan_kswapd); its client says $(tail -n 1 polled.kept)"
protected() {
    case $(($(word $groups/pagetide/kept/memory.stat pgscan_kswapd) - kept_before)) in
    0) asleep kept ;;
    *) woken kept ;;
    esac
}
test_that a_protected_tenant_is_woken_if_it_was_scanned wait_for 10 protected
budget() { at_most "memory.current of the root" "$(cat $dir/memory.current)" $((200 << 20)); }
test_that the_budget_is_not_reached budget
kill_group
end_polls
test_that all_of_a_is_right checked a

exit 0

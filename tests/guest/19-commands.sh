#!/bin/sh
# The commands that only read, and their exit codes: 0, 1 a failure, 2 bad usage, 3 missing privilege or
# kernel feature.
#
# The short part of the suite is this and all that comes before it by name (0*, 1*).
. /suite/lib

# ends STATUS COMMAND...
ends() {
    wanted=$1
    shift
    "$@" >out 2>err
    is "$?" "$wanted" || { head -3 err; return 1; }
}
said() { grep -q "$1" out err || { cat out err; return 1; }; }

new_group commands
start anon 4
top_once() { ends 0 pagetide top --once --every 1s && said mem; }
top_json() { ends 0 pagetide top --once --every 1s --by cgroup --json && said commands; }
report_all() { ends 0 pagetide report --all --for 1s --age-every 1s --json && said '"mem anon 4"'; }
report_human() { ends 0 pagetide report $pid --for 1s --age-every 1s && said mem; }
report_csv() { ends 0 pagetide report $pid --for 1s --age-every 1s --csv && is "$(wc -l <out)" 2; }
# Whatever is missing here, the code says no more and no less than `ready`.
doctor() {
    pagetide doctor --json >out 2>err
    status=$?
    ready=$(field ready out)
    is "$status/$ready" "$([ "$ready" = true ] && echo 0 || echo 3)/$ready" && [ -n "$ready" ]
}
doctor_source() { is "$(field age_source out)" page-tables; }
no_target() { ends 2 pagetide report && said PID; }
too_often() { ends 2 pagetide report $pid --age-every 1ms; }
no_process() { ends 1 pagetide report 999999 --for 1s; said 999999; }
no_group() { ends 1 pagetide report --cgroup /nonexistent --for 1s && said nonexistent; }
# It watches once it has the file open by which bits are cleared.
watched() { ls -l /proc/[0-9]*/fd 2>/dev/null | grep -q "/proc/$pid/clear_refs"; }
gone_meanwhile() {
    (wait_for 100 watched; kill $pid) &
    ends 0 pagetide report $pid --for 120s --age-every 1s --json
}
test_that top_once top_once
test_that top_by_group_as_json top_json
test_that report_all report_all
test_that report_for_people report_human
test_that report_csv report_csv
test_that doctor_ends_as_it_says doctor
test_that doctor_names_the_source doctor_source
grep -v '"ok"' out | grep -A3 '"topic"' | head -40
test_that no_target_is_bad_usage no_target
test_that too_often_is_bad_usage too_often
test_that no_such_process no_process
test_that no_such_group no_group
test_that a_process_that_ends_is_no_failure gone_meanwhile
kill_group
exit 0

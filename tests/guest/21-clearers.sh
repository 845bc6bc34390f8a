#!/bin/sh
# Others that clear accessed bits while we watch: the kernel's DAMON, and the multi-gen LRU's aging. Each bit
# that they take before a look is an access that we do not see, so that a page may look older than it is:
# how much is right is printed. What is never touched stays old, and sums stay right.
. /suite/lib

half=$((8 << 20))
new_group clearers
start ages 16 1000 flush
base=$(($(rollup $pid Rss) - 2 * half - 262144))

# watch NAME: a report, and what it says. Of the touched half, some is unknown if clearing was refused.
watch() {
    report $pid --for 7s --age-every 1s --max-wait 900ms
    status=$?
    old=$(($(aged 5000) - half - base))
    echo "$1: of what is touched each 1 s, $((old > 0 ? old * 100 / half : 0)) % is called older than 5 s; unknown: $(field unknown_age_bytes); by age:$(bins)"
    test_that "report_beside_$1" is $status/$(field age_source) 0/page-tables
    test_that "never_touched_is_old_beside_$1" at_least "older than 5 s" "$(aged 5000)" $half
    test_that "sums_beside_$1" near resident_bytes "$(field resident_bytes)" "$(rollup $pid Rss)"
    sed -n '/"unknown_because": \[$/,/\]/ s/"reason": //p' report.json
    notes
}

damon=/sys/kernel/mm/damon/admin/kdamonds
# kdamond OPERATIONS [PID]: of the addresses of a process, or of all physical ones.
kdamond() {
    echo 1 >$damon/nr_kdamonds && echo 1 >$damon/0/contexts/nr_contexts &&
        echo $1 >$damon/0/contexts/0/operations &&
        echo 1 >$damon/0/contexts/0/targets/nr_targets || return 1
    if [ $1 = vaddr ]; then
        echo $2 >$damon/0/contexts/0/targets/0/pid_target
    else
        echo 1 >$damon/0/contexts/0/targets/0/regions/nr_regions
        # All of the guest's memory lies below 4 GiB.
        echo 4096 >$damon/0/contexts/0/targets/0/regions/0/start
        echo 1073741824 >$damon/0/contexts/0/targets/0/regions/0/end
    fi
    echo on >$damon/0/state && is "$(cat $damon/0/state)" on
}
watch nobody
for operations in vaddr paddr; do
    if why=$(kdamond $operations $pid 2>&1); then
        watch damon_$operations
        test_that damon_${operations}_ran_all_the_time is "$(cat $damon/0/state)" on
        echo off >$damon/0/state
        echo 0 >$damon/nr_kdamonds
    else
        skip damon_$operations "$(echo $why)"
    fi
done

lru_gen=/sys/kernel/debug/lru_gen
[ "$(cat /sys/kernel/mm/lru_gen/enabled)" = 0x0000 ] && echo y >/sys/kernel/mm/lru_gen/enabled
id=$(awk '$1 == "memcg" && $3 == "/clearers" { print $2 }' $lru_gen)
# age_each SECONDS: the youngest generation is the last line of the group's; each aging makes a new one.
age_each() {
    while sleep $1; do
        last=$(awk '$1 == "memcg" { inside = $3 == "/clearers" } inside && NF > 3 { last = $1 } END { print last }' $lru_gen)
        echo "+ $id 0 $last" >$lru_gen && echo . >>agings
    done 2>/dev/null
}
for pause in 0.3 3; do
    [ -n "$id" ] || { skip aging "the multi-gen LRU is not in this kernel"; break; }
    : >agings
    age_each $pause &
    aging=$!
    watch aging_each_$pause
    test_that agings_each_$pause at_least agings "$(wc -l <agings)" 2
    kill $aging
done
[ "$GUEST_KERNEL" = 6.1 ] && echo n >/sys/kernel/mm/lru_gen/enabled
kill_group
exit 0

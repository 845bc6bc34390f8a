#!/bin/sh
# installed: redis-server redis-cli
# redis on version 2 under the rule of working-set reporting's author (read page_age, sum what is old, write that to memory.reclaim): what nobody asks for
# leaves, and every value is right. By the kernel's figures; redis is its own witness by what it answers.
. /suite/lib

[ "$GUEST_ZRAM_MIB" -gt 0 ] || { echo "skip all: there is no swap"; echo "ok nothing"; exit 0; }
export PATH=$PATH:/usr/bin
disk && cd $where

test_that it_serves serve
mkdir $dir/r && echo N0=1000 >$dir/r/memory.workingset.refresh_interval
echo 4000 >$dir/node0/workingset_report/page_age_intervals
group=$groups/pagetide/r
sh -c "echo 0 >$dir/r/cgroup.procs; exec redis-server --port 0 --unixsocket $where/redis --save '' --daemonize no" >redis.out 2>&1 &
redis=$!
ask() { redis-cli -s $where/redis "$@"; }
up() { is "$(ask ping)" PONG; }
test_that redis_is_inside wait_for 60 up
keys=10000
# A value of 2 KiB follows from its number.
filled() {
    ask eval "for i = 1, $keys do redis.call('set', 'k' .. i, string.rep(redis.sha1hex(tostring(i)), 51)) end return redis.call('dbsize')" 0 >filled
    is "$(cat filled)" $keys
}
test_that it_is_filled filled
# right FROM TO: how many of these are as they were set.
right() {
    ask eval "local n = 0 for i = $1, $2 do if redis.call('get', 'k' .. i) == string.rep(redis.sha1hex(tostring(i)), 51) then n = n + 1 end end return n" 0
}
has() { is "$(right $1 $2)" $(($2 - $1 + 1)); }
test_that all_is_right has 1 $keys
first=$(cat $group/memory.current)
used=$((keys / 10))
# A tenth of it is asked for each second.
(while :; do right 1 $used >now && cat now >>answers; sleep 1; done) &
asker=$!
bytes() { awk -v from=$1 '/=/ && $1 >= from { split($2, a, "="); split($3, f, "="); n += a[2] + f[2] } END { printf "%d", n }' $dir/r/memory.workingset.page_age; }
cold() { bytes 18446744073709551615; }
is_cold() { at_least cold "$(cold)" 12000000; }
test_that what_nobody_asks_for_grows_cold wait_for 60 is_cold
user() { echo $(($(word $group/memory.stat anon) + $(word $group/memory.stat file) - $(word $group/memory.stat swapcached))); }
# (What redis maps of programs' files is charged to nobody of ours: all files of a guest are in memory.)
text() { awk '/^[0-9a-f]+-/ { is = $6 ~ "^/(usr|lib|lib64|files|bin)/" } is && $1 == "Pss:" { sum += $2 } END { print sum * 1024 }' /proc/$redis/smaps; }
sums() { near page_age "$(bytes 0)" $(($(user) + $(text))) 2 1048576; }
test_that page_age_sums_to_what_it_has wait_for 30 sums
ruled() {
    for round in 1 2 3; do
        echo "$(cold)" 2>/dev/null >$dir/r/memory.reclaim
        sleep 4
    done
    now=$(cat $group/memory.current)
    echo "charge $first, then $now; in swap by the kernel $(cat $group/memory.swap.current), by VmSwap $(($(status $redis VmSwap) * 1024)); pgsteal $(word $dir/r/memory.stat pgsteal)" >&3
    at_most charge $now $((first / 2))
}
exec 3>&1
pswpout=$(out) pswpin=$(word /proc/vmstat pswpin)
test_that half_of_it_leaves ruled
# (What redis has freed since is out of swap, too: so the kernel's count of what it wrote is held against ours.)
by_both() {
    echo "pgsteal $(word $dir/r/memory.stat pgsteal), pswpout $(($(out) - pswpout)); refaults $(word $dir/r/memory.stat workingset_refault_anon), pswpin $(($(word /proc/vmstat pswpin) - pswpin))" >&3
    near pgsteal "$(word $dir/r/memory.stat pgsteal)" $(($(out) - pswpout)) 2 &&
        near refaults "$(word $dir/r/memory.stat workingset_refault_anon)" $(($(word /proc/vmstat pswpin) - pswpin)) 5 64
}
test_that the_kernel_wrote_as_much_as_left wait_for 20 by_both
# What is in use is not among it: another second of it brings hardly anything back.
faults() { awk '{ print $12 }' /proc/$redis/stat; }
stays() {
    before=$(faults) && sleep 3
    came=$(($(faults) - before))
    echo "$came major faults in 3 s of asking for what is in use" >&3
    at_most "major faults" $came 100
}
test_that what_is_in_use_stays stays
kill $asker
answers() { is "$(sort -u answers)" $used && at_least answers "$(wc -l <answers)" 5; }
test_that all_answers_were_right answers
test_that all_of_it_is_right_at_the_end has 1 $keys
alive() { is "$(word $group/memory.events oom_kill)" 0 && kill -0 $redis; }
test_that nobody_was_killed alive
ended() { kill $redis && wait_for 30 rmdir $dir/r && stopped; }
test_that all_ends ended
cd /
exit 0

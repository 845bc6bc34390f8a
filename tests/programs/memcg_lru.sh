#!/bin/bash
# Tests the fairness of global reclaim as the cover letter of the memcg LRU's patch series does
# (docs/spec/memcg-lru.md). In each tenant one fio job touches all of its memory at random. The script
# writes to memory.reclaim of the root again and again, and then reads each tenant's pgsteal. Arguments:
# the root of the control groups; number of tenants; MiB of each tenant; KiB/s that each tenant reads (and
# writes as much); seconds before the first round; number of rounds; bytes requested in a round (as
# memory.reclaim accepts them); seconds between two rounds. Prints a line for each tenant, whose second
# word is pgsteal. Requests that fail are reported on standard error.
set -u
root=$1 tenants=$2 mib=$3 rate=$4 warm=$5 rounds=$6 size=$7 rest=$8
jobs=()
end() {
    for job in "${jobs[@]}"; do kill "$job" 2>/dev/null; done
    wait
    for ((n = 0; n < tenants; n++)); do rmdir "$root/memcg$n" 2>/dev/null; done
}
trap end EXIT
for ((n = 0; n < tenants; n++)); do mkdir "$root/memcg$n" || exit 1; done
job() {
    echo "$BASHPID" > "$root/memcg$1/cgroup.procs" || exit 1
    exec fio --name="memcg$1" --numjobs=1 --ioengine=mmap --filename=/dev/zero --size="${mib}m" --rw=randrw \
        --rate="${rate}k,${rate}k" --random_distribution=random --fadvise_hint=0 --time_based --runtime=10h \
        --group_reporting --minimal > /dev/null
}
# The jobs are started one after the other. At its start fio measures how exact sleep is. If other jobs
# start at the same time, the result is so bad that fio does not sleep any more, and all 128 jobs would use
# all processor time.
for ((n = 0; n < tenants; n++)); do
    job "$n" &
    jobs+=($!)
    sleep 0.5
done
sleep "$warm"
for ((i = 0; i < rounds; i++)); do
    echo "$size" > "$root/memory.reclaim"
    sleep "$rest"
done
for ((n = 0; n < tenants; n++)); do grep "pgsteal " "$root/memcg$n/memory.stat"; done

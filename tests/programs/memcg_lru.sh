#!/bin/bash
# Fairness of global reclaim, as the memcg LRU's cover letter tests it (docs/spec/memcg-lru.md): in each tenant one fio
# job that touches all of its memory at random; memory.reclaim of the root, again and again; then each tenant's pgsteal.
# Arguments: the root of the control groups, tenants, MiB of each, KiB/s that each reads (and writes), seconds before the
# first round, rounds, bytes of one (as memory.reclaim takes them), seconds between two.
# Prints a line a tenant: the second word is its pgsteal. Refused requests go to standard error.
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
# One after the other: fio measures when it starts how exact sleep is, and beside others that start finds it so inexact that it
# spins from then on, all 128 of them.
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

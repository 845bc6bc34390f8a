"""Runs libCacheSim for `cargo xtask bench libcachesim`. For each input line `POLICY SIZE POWER FILE`, prints
the CPU seconds that libCacheSim needs for the whole file, and its number of misses."""

import sys
import time

import libcachesim as lcs

POLICIES = {
    "lru": lcs.LRU,
    "clock": lcs.Clock,
    "arc": lcs.ARC,
    "s3-fifo": lcs.S3FIFO,
    "sieve": lcs.Sieve,
    "lirs": lcs.LIRS,
    "w-tiny-lfu": lcs.WTinyLFU,
}
RECORD = 24


def run(policy, size, power, path):
    params = lcs.ReaderInitParam()
    params.ignore_obj_size = True
    reader = lcs.TraceReader(path, lcs.TraceType.ORACLE_GENERAL_TRACE, params)
    cache = POLICIES[policy](size, hashpower=power)
    start = time.process_time()
    ratio, _ = cache.process_trace(reader)
    seconds = time.process_time() - start
    with open(path, "rb") as file:
        file.seek(0, 2)
        requests = file.tell() // RECORD
    misses = round(ratio * requests)
    if abs(ratio * requests - misses) > 1e-3:
        raise SystemExit(f"{policy}: {ratio} is no share of {requests} requests")
    return seconds, misses


for line in sys.stdin:
    name, size, power, path = line.rstrip("\n").split(" ", 3)
    seconds, misses = run(name, int(size), int(power), path)
    print(seconds, misses, flush=True)

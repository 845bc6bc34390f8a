"""The other side of `cargo xtask bench libcachesim`: answers `POLICY SIZE FILE` lines with the CPU
seconds that libCacheSim took for the whole file, and its number of misses."""

import sys
import time

import libcachesim as lcs

POLICIES = {"lru": lcs.LRU, "clock": lcs.Clock}
RECORD = 24


def run(policy, size, path):
    params = lcs.ReaderInitParam()
    params.ignore_obj_size = True
    reader = lcs.TraceReader(path, lcs.TraceType.ORACLE_GENERAL_TRACE, params)
    cache = POLICIES[policy](size, reader=None)
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
    name, size, path = line.rstrip("\n").split(" ", 2)
    seconds, misses = run(name, int(size), path)
    print(seconds, misses, flush=True)

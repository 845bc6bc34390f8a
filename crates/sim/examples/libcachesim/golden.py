"""Prints the misses that libCacheSim counts for small streams. The output is golden.txt, with which the
test golden.rs compares the baseline policies. Run `PYTHON golden.py > golden.txt`, where PYTHON has the
package libcachesim 0.3.5. golden.rs generates the same streams."""

import struct
import sys
import tempfile

import libcachesim as lcs

LEN = 60_000
ALL = 2**64 - 1
# For each policy, the smallest size at which it works in libCacheSim. Below it, S3-FIFO and W-TinyLFU
# admit no page or abort, and LIRS has no two pages of low recency.
POLICIES = [
    ("lru", lcs.LRU, 1),
    ("clock", lcs.Clock, 1),
    ("arc", lcs.ARC, 1),
    ("s3-fifo", lcs.S3FIFO, 20),
    ("sieve", lcs.Sieve, 1),
    ("lirs", lcs.LIRS, 3),
    ("w-tiny-lfu", lcs.WTinyLFU, 100),
]
SIZES = [1, 2, 3, 5, 10, 20, 21, 50, 99, 100, 101, 150, 199, 200, 201, 333, 500, 777, 1000, 2000, 4000]


def stream(name):
    state = sum(name.encode())

    def skewed(pages):
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) & ALL
        bits = state >> 48
        return (bits * bits >> 16) * bits * pages >> 32

    for n in range(LEN):
        if name == "skewed":
            yield skewed(4_000)
        elif name == "scattered":
            yield skewed(9_000) * 0x9E3779B97F4A7C15 & ALL
        else:
            phase = n // 3_000 % 4
            if phase == 0:
                yield skewed(2_000)
            elif phase == 1:
                yield n % 700
            elif phase == 2:
                yield 10_000 + n
            else:
                yield skewed(2_000) + n // 100


def misses(policy, size, path):
    params = lcs.ReaderInitParam()
    params.ignore_obj_size = True
    reader = lcs.TraceReader(path, lcs.TraceType.ORACLE_GENERAL_TRACE, params)
    ratio, _ = policy(size, hashpower=14).process_trace(reader)
    return round(ratio * LEN)


for name in ["skewed", "mixed", "scattered"]:
    with tempfile.NamedTemporaryFile(suffix=".oracleGeneral.bin") as file:
        for page in stream(name):
            file.write(struct.pack("<IQIq", 0, page, 1, -1))
        file.flush()
        for label, policy, least in POLICIES:
            for size in SIZES:
                if size >= least:
                    print(name, label, size, misses(policy, size, file.name))
                    sys.stdout.flush()

#!/usr/bin/env python3
# A program that allocates some memory at once and more in small steps. It does not access this memory
# again until its end, when it checks every byte.
#
#   growing.py FIRST MORE FILE      reads the file, which stays in its page cache; MiB at once, and MiB in steps of 64 KiB, 2 ms between two;
#                                   prints "hits N", how often its control group (v1) met its limit until then, and "right"
import os, sys, time

first, more = int(sys.argv[1]) * 16, int(sys.argv[2]) * 16
group = next(line.strip().split(":memory:")[1] for line in open("/proc/self/cgroup") if ":memory:" in line)
noise = os.urandom(16 << 10)


def step(number):
    return bytearray(noise + number.to_bytes(4, "little") * (12 << 10))


with open(sys.argv[3], "rb", buffering=0) as file:
    while file.read(64 << 10):
        pass
memory = []
for number in range(first + more):
    memory.append(step(number))
    if number == first:
        time.sleep(1)
    elif number > first:
        time.sleep(0.002)
with open(f"/sys/fs/cgroup/memory{group}/memory.failcnt") as file:
    print("hits", file.read().strip())
print("right" if all(one == step(number) for number, one in enumerate(memory)) else "wrong")

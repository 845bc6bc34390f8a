#!/usr/bin/env python3
# A file read from begin to end by mmap, again and again, 2 MiB each 20 ms, and what is said of it: none, sequential, random. Prints a line when
# it has come to the end. stream.py FILE ADVICE
import mmap, sys, time

PIECE = 2 << 20
names = {"none": mmap.MADV_NORMAL, "sequential": mmap.MADV_SEQUENTIAL, "random": mmap.MADV_RANDOM}
with open(sys.argv[1], "rb") as file:
    area = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
area.madvise(names[sys.argv[2]])
while True:
    for at in range(0, len(area), PIECE):
        area[at:at + PIECE:4096]
        time.sleep(0.02)
    print("read", flush=True)

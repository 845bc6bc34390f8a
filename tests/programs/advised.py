#!/usr/bin/env python3
# Writes all pages of two areas of MIB MiB again and again. For the first area the program gives the advice
# that it is read in order. When both areas have been written twice, prints `ready` and the addresses of
# the two areas in hex. Usage: advised.py MIB
import ctypes, mmap, sys, time

pages = int(sys.argv[1]) * 256
areas = [mmap.mmap(-1, pages * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) for _ in range(2)]
for area in areas:
    area.madvise(mmap.MADV_NOHUGEPAGE)
areas[0].madvise(mmap.MADV_SEQUENTIAL)
places = [hex(ctypes.addressof(ctypes.c_char.from_buffer(area))) for area in areas]
turn = 0
while True:
    turn += 1
    for area in areas:
        area[::4096] = bytes([turn % 256]) * pages
    if turn == 2:
        print("ready", *places, flush=True)
    time.sleep(0.2)

#!/usr/bin/env python3
# Maps files of MIB MiB each, and as much anonymous memory, and uses every page of all of them again and
# again, equally often. When all pages have been used twice, prints `ready` and the address of each mapping
# in hex, the anonymous memory last. For a FILE after `once:` the program declares by POSIX_FADV_NOREUSE
# that the file is used only once. Usage: mapped.py MIB [once:]FILE...
import ctypes, mmap, os, sys, time

pages = int(sys.argv[1]) * 256
files = [open(name.removeprefix("once:"), "r+b") for name in sys.argv[2:]]
for name, file in zip(sys.argv[2:], files):
    if name.startswith("once:"):
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_NOREUSE)
areas = [mmap.mmap(file.fileno(), pages * 4096) for file in files]
own = mmap.mmap(-1, pages * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
own.madvise(mmap.MADV_NOHUGEPAGE)
own[::4096] = b"x" * pages
areas.append(own)
places = [hex(ctypes.addressof(ctypes.c_char.from_buffer(area))) for area in areas]
turn = 0
while True:
    turn += 1
    for area in areas:
        area[::4096]
    if turn == 2:
        print("ready", *places, flush=True)
    time.sleep(0.2)

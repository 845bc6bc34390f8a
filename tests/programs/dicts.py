"""Builds, changes, sorts and checks dictionaries; prints a checksum that only a wrong byte changes.

usage: dicts.py [ENTRIES]      400,000 entries peak at some 200 MiB
"""

import sys
import zlib

entries = int(sys.argv[1]) if len(sys.argv) > 1 else 400_000


def value(key):
    return ("%016x" % (key * 0x9E3779B97F4A7C15 & (1 << 64) - 1)) * (1 + key % 5)


table = {key: value(key) for key in range(entries)}
nested = {str(key): {"a": key, "b": [key, key + 1], "c": value(key)} for key in range(0, entries, 4)}

for key in range(0, entries, 7):
    del table[key]
for key in range(0, entries, 14):
    table[key] = value(key)

checksum = 0
for key in sorted(table, key=lambda key: (value(key), key)):
    text = table[key]
    if text != value(key):
        sys.exit("table[%d] is wrong" % key)
    checksum = zlib.crc32(text.encode(), checksum)
for key, inner in sorted(nested.items()):
    number = int(key)
    if inner != {"a": number, "b": [number, number + 1], "c": value(number)}:
        sys.exit("nested[%s] is wrong" % key)
    checksum = zlib.crc32(inner["c"].encode(), checksum)

strings = sorted(table.values(), reverse=True)
for text in strings:
    checksum = zlib.crc32(text.encode(), checksum)
print("OK entries=%d checksum=%08x" % (len(table), checksum))

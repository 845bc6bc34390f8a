"""A table with an index in an sqlite database in memory: filled, asked and changed; prints a checksum.

usage: rows.py [ROWS [QUERIES]]      400,000 rows peak at some 160 MiB
"""

import sqlite3
import sys
import zlib

rows = int(sys.argv[1]) if len(sys.argv) > 1 else 400_000
queries = int(sys.argv[2]) if len(sys.argv) > 2 else 200_000

base = sqlite3.connect(":memory:")
base.execute("create table t (id integer primary key, k integer, text text)")


def key(number):
    return (number * 0x9E3779B97F4A7C15 & (1 << 64) - 1) >> 33


base.executemany(
    "insert into t values (?, ?, ?)",
    ((number, key(number), ("%016x" % key(number)) * 16) for number in range(rows)),
)
base.execute("create index by_k on t (k)")

checksum = 0
for number in range(queries):
    # Three of four queries cover a tenth of the rows.
    span = rows // 10 if number % 4 else rows
    wanted = key(number) * 2654435761 % span
    (text,) = base.execute("select text from t where k = ?", (key(wanted),)).fetchone()
    checksum = zlib.crc32(text.encode(), checksum)
    if number % 8 == 0:
        base.execute("update t set text = ? where id = ?", (text[::-1], wanted))
print("OK rows=%d checksum=%08x" % (rows, checksum))

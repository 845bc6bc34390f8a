"""Values that are asked for at a steady pace, most of them never: for curves and limits that come from them.

usage: paced.py dict|sqlite VALUES PER_SECOND SECONDS

Makes VALUES of 4 KiB each, prints `ready pid=P`, then asks PER_SECOND of them a second, spread over each fiftieth of
one, for SECONDS or until standard input ends; what was late is caught up with. All but one of 60,000 are of the first
half: evenly in the dict, and in the table the earlier rows more often (by the square of a chance). Each is checked.
"""

import os
import random
import select
import sqlite3
import sys
import time

kind, count, rate, seconds = sys.argv[1], *map(int, sys.argv[2:5])
hot, ticks, rare = count // 2, 50, 60_000
chance = random.Random(88172645463325252)


def value(number):
    return number.to_bytes(8, "little") * 500


if kind == "dict":
    table = {number: value(number) for number in range(count)}
    ask = table.__getitem__
else:
    base = sqlite3.connect(":memory:", isolation_level=None)
    base.execute("create table t (id integer primary key, v blob)")
    base.executemany("insert into t values (?, ?)", ((number, value(number)) for number in range(count)))

    def ask(number):
        return base.execute("select v from t where id = ?", (number,)).fetchone()[0]


print("ready pid=%d" % os.getpid(), flush=True)
begin, done = time.monotonic(), 0
for tick in range(seconds * ticks):
    pause = begin + tick / ticks - time.monotonic()
    if select.select([0], [], [], max(pause, 0))[0] and not os.read(0, 1):
        break
    while done < (tick + 1) * rate // ticks:
        done += 1
        share = chance.random()
        number = int(hot * (share if kind == "dict" else share * share))
        if done % rare == 0:
            number = chance.randrange(count)
        if ask(number)[:8] != number.to_bytes(8, "little"):
            sys.exit("value %d is wrong" % number)
print("asked %d" % done)

"""One of three services of `bench services`, by HTTP on loopback: `service.py dict|sqlite|compile PORT KEYS WORDS FOLDER`.

GET /KEY answers with the value of a key: from a dict, by a thread a client; from a database file that sqlite maps; or with the
checksum of what gcc makes of a C file.
"""
import hashlib
import os
import sqlite3
import subprocess
import sys
import threading

from by_key import serve, value


def from_dict(keys, words, _folder):
    values = {key: {"id": key, "text": value(key, words)} for key in range(keys)}
    return lambda key: values[key]["text"]


def from_sqlite(keys, words, folder):
    path = os.path.join(folder, "values.db")
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE pairs (key INTEGER PRIMARY KEY, value TEXT)")
    rows = ((key, value(key, words)) for key in range(keys))
    database.executemany("INSERT INTO pairs VALUES (?, ?)", rows)
    database.commit()
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    own = threading.local()

    def get(key):
        if not hasattr(own, "database"):
            own.database = sqlite3.connect(path)
            own.database.execute("PRAGMA mmap_size = 1073741824")
        query = "SELECT value FROM pairs WHERE key = ?"
        return own.database.execute(query, (key,)).fetchone()[0]

    return get


def source(key, functions):
    """A C file of so many functions."""
    text = ["#include <stdio.h>", "#include <stdlib.h>", "#include <string.h>"]
    for number in range(functions):
        text.append(
            f"int f{number}(const char *s, int n) {{ int r = {key}; char b[64];"
            f" for (int i = 0; i < n; i++) {{ r = r * {number + 3} + s[i % 7] - i;"
            f' if (r % {number + 11} == 0) {{ snprintf(b, sizeof b, "%d", r); r += (int)strlen(b) + atoi(b); }} }}'
            " return r; }"
        )
    return "\n".join(text) + "\n"


def from_gcc(keys, words, folder):
    for key in range(keys):
        with open(os.path.join(folder, f"{key}.c"), "w", encoding="ascii") as file:
            file.write(source(key, words))

    def get(key):
        out = os.path.join(folder, f"{key}.o")
        subprocess.run(["gcc", "-O1", "-c", f"{key}.c", "-o", out], check=True, cwd=folder)
        with open(out, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()

    return get


def main():
    kind, port, keys, words, folder = sys.argv[1:]
    makers = {"dict": from_dict, "sqlite": from_sqlite, "compile": from_gcc}
    get = makers[kind](int(keys), int(words), folder)
    serve(port, get)


main()

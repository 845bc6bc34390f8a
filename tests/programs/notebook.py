"""A user of a notebook for `bench services`: `notebook.py CONNECTION PORT KEYS WORDS`, by HTTP on loopback.

GET /KEY runs a cell in the kernel that has CONNECTION, and answers with what the cell prints. The first cell makes a table of columns
and a dict, which the kernel holds.
"""
import inspect
import os
import sys
import threading
import time

from jupyter_client import BlockingKernelClient

from by_key import serve, value

SETUP = """
import array
{value}
rows = {{key: value(key, {words}) for key in range({keys})}}
table = {{name: array.array("d", [float(i % (97 + at)) for i in range(500_000)]) for at, name in enumerate("abcdefghijklmnopqrst")}}
def cell(key):
    total = sum(table["ab"[key % 2]][:100_000])
    assert total > 0
    return rows[key]
print("made")
"""


def main():
    connection, port, keys, words = sys.argv[1:]
    while not os.path.exists(connection):
        time.sleep(0.1)
    client = BlockingKernelClient(connection_file=connection)
    client.load_connection_file()
    client.start_channels()
    client.wait_for_ready(timeout=120)
    turn = threading.Lock()

    def run(code):
        printed = []

        def take(message):
            kind = message["header"]["msg_type"]
            if kind == "stream":
                printed.append(message["content"]["text"])
            elif kind == "error":
                printed.append(message["content"]["evalue"])

        with turn:
            client.execute_interactive(code, output_hook=take, store_history=False, timeout=300)
        return "".join(printed).strip()

    made = run(SETUP.format(value=inspect.getsource(value), keys=keys, words=words))
    assert made == "made", made
    serve(port, lambda key: run(f"print(cell({key}))"))


main()

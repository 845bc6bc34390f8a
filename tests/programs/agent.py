#!/usr/bin/env python3
# The agent of workingset reporting's author, by its rule: every so often, of each group, what was not
# used for so long is reclaimed. agent.py DIR [EVERY_S [COLD_MS]]; it knows nothing of pagetide.
import os, sys, time

directory = sys.argv[1]
every = float(sys.argv[2]) if len(sys.argv) > 2 else 40
cold_ms = int(sys.argv[3]) if len(sys.argv) > 3 else 10000

def groups():
    for name in sorted(os.listdir(directory)):
        if os.path.exists(f"{directory}/{name}/memory.workingset.page_age"):
            yield f"{directory}/{name}"

for group in groups():
    with open(f"{group}/memory.workingset.refresh_interval", "w") as file:
        file.write("N0=1000")
while True:
    time.sleep(every)
    for group in groups():
        cold, lower = 0, 0
        with open(f"{group}/memory.workingset.page_age") as file:
            for line in file:
                if line.startswith("N"):
                    lower = 0
                    continue
                edge, anon, of_file = line.split()
                if lower >= cold_ms:
                    cold += int(anon[5:]) + int(of_file[5:])
                lower = int(edge)
        try:
            with open(f"{group}/memory.reclaim", "w") as file:
                file.write(str(cold))
        except BlockingIOError:
            pass  # less was to be had
        print(f"{os.path.basename(group)} asked {cold}", flush=True)

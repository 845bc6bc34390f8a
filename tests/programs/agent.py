#!/usr/bin/env python3
# An agent with the rule of the author of working-set reporting (docs/spec/workingset-report.md 9). Every
# EVERY_S seconds it sums, for each control group below DIR, the bytes of cold bins of node 0 in page_age,
# and writes the sum to the group's memory.reclaim. By the rule `label` a bin is cold if its label, its
# upper edge, is COLD_MS or more: with the edges 5000 and 10000, and COLD_MS 10000, this is memory that was
# not used for 5 s. By the rule `lower` a bin is cold if its lower edge is COLD_MS or more. The agent knows
# nothing of pagetide. Usage: agent.py DIR [EVERY_S [COLD_MS [label|lower]]]
import os, sys, time

directory = sys.argv[1]
every = float(sys.argv[2]) if len(sys.argv) > 2 else 40
cold_ms = int(sys.argv[3]) if len(sys.argv) > 3 else 10000
rule = sys.argv[4] if len(sys.argv) > 4 else "label"
assert rule in ("label", "lower"), rule

def groups():
    for name in sorted(os.listdir(directory)):
        if os.path.exists(f"{directory}/{name}/memory.workingset.page_age"):
            yield f"{directory}/{name}"

def cold_of(group):
    cold, lower, node = 0, 0, None
    with open(f"{group}/memory.workingset.page_age") as file:
        for line in file:
            if line.startswith("N"):
                lower, node = 0, line.strip()
                continue
            label, anon, of_file = line.split()
            if node == "N0" and (int(label) if rule == "label" else lower) >= cold_ms:
                cold += int(anon[5:]) + int(of_file[5:])
            lower = int(label)
    return cold

# The author's agent does not enable the reports; another script does.
for group in groups():
    with open(f"{group}/memory.workingset.refresh_interval", "w") as file:
        file.write("N0=1000")
while True:
    time.sleep(every)
    for group in groups():
        cold = cold_of(group)
        try:
            with open(f"{group}/memory.reclaim", "w") as file:
                file.write(str(cold))
        except BlockingIOError:
            pass  # less was to be had
        print(f"{os.path.basename(group)} asked {cold}", flush=True)

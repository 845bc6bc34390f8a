"""How many of a tenant's touches miss beside noisy ones, by the machine's memory and the policy, over many seeds: a sweep on
all processors.

    pip install '.[arrow,ray,progress]'
    python examples/sweep.py --seeds 100 --folder results/       # 1,000 experiments; again: only those that are missing
    python examples/sweep.py --seeds 100 --address HEAD:6379     # the same on a Ray cluster
"""

import argparse
from collections import defaultdict
from pathlib import Path
from statistics import mean

import pagetide

SCENARIO = Path(__file__).with_name("noisy-neighbour.toml")
MEMORY = ("96M", "128M", "160M", "240M", "320M")
POLICIES = ("multi-gen", "active-inactive")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=10)
    options.add_argument("--folder", help="where results are kept")
    options.add_argument("--workers", type=int)
    options.add_argument("--address", help="of a Ray cluster")
    given = options.parse_args()
    experiments = [
        pagetide.Experiment(SCENARIO, {"run.memory": memory, "run.policy": policy, "run.duration": "10s"}, seed)
        for memory in MEMORY
        for policy in POLICIES
        for seed in range(given.seeds)
    ]
    sweep = pagetide.sweep(experiments, folder=given.folder, workers=given.workers, address=given.address)
    missed = defaultdict(list)
    columns = sweep.table("Tenants").columns
    for memory, policy, tenant, percent in zip(*(columns[name] for name in ("run.memory", "run.policy", "tenant", "missed (%)"))):
        missed[memory, policy, tenant].append(percent)
    print(f"{'memory':8}{'policy':18}{'tenant':8}missed: mean and range of {given.seeds} seeds")
    for (memory, policy, tenant), percents in missed.items():
        print(f"{memory:8}{policy:18}{tenant:8}{mean(percents):6.2f}%  {min(percents):.2f}% to {max(percents):.2f}%")


if __name__ == "__main__":
    main()

"""Sweeps on Ray, one with a killed worker and one with a killed driver, compared with a serial sweep.

All must have the same bytes, and no experiment may be computed twice. Arguments: a folder for results, a scenario,
the number of experiments. Prints a JSON object of seconds and counts.
"""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pagetide

FOLDER, SCENARIO, COUNT = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
POLICIES = ("multi-gen", "active-inactive")


def experiments():
    """COUNT experiments: two policies, with ascending seeds."""
    settings = [{"run.policy": policy, "run.duration": "3s"} for policy in POLICIES]
    return [pagetide.Experiment(SCENARIO, settings[n % 2], n // 2) for n in range(COUNT)]


def working():
    """Pids of the workers that are computing an experiment: children of the raylet that this process has started."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            name, parent = (entry / "cmdline").read_bytes(), int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            above = int(Path(f"/proc/{parent}/stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError):
            continue
        if name.startswith(b"ray::perform") and above == os.getpid():
            found.append(int(entry.name))
    return found


class Killer:
    """Kills one working worker as soon as this share of the sweep is done."""

    def __init__(self, share):
        self.share, self.killed = share, 0

    def __call__(self, what, share):
        if share >= self.share and not self.killed and (pids := working()):
            os.kill(pids[0], signal.SIGKILL)
            self.killed = pids[0]


def results(folder):
    """The results in a folder: for each file its content, and the time when it was written."""
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.glob("*.json")}


def main():
    begin = time.monotonic()
    serial = pagetide.sweep(experiments(), folder=FOLDER / "serial", workers=1, progress=False)
    took = {"serial_s": time.monotonic() - begin}
    # The experiments are in reverse order: results must not depend on the order of requests or of completion.
    killer, begin = Killer(0.3), time.monotonic()
    spread = pagetide.sweep(experiments()[::-1], folder=FOLDER / "ray", workers=2, progress=killer)
    took["ray_s"] = time.monotonic() - begin
    assert killer.killed, "no worker was killed"
    assert bytes(serial) == b"".join(map(bytes, reversed(spread))), "Ray gives other bytes"
    contents = [{name: content for name, (content, _) in results(FOLDER / one).items()} for one in ("serial", "ray")]
    assert contents[0] == contents[1] and len(contents[0]) == len(set(map(bytes, serial))) == COUNT
    by_address(serial)
    took |= driver_killed(serial)
    print(json.dumps(took | {"experiments": COUNT, "killed_worker": killer.killed}))


def by_address(serial):
    """Runs the same sweep, by address, on a Ray cluster of one machine that `ray start` has started."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = os.environ | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    ray = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block", "--node-ip-address=127.0.0.1", f"--port={port}"]
    head = subprocess.Popen([*ray, "--num-cpus=2", "--include-dashboard=false"], env=env, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        end = time.monotonic() + 60
        while not listens(port):
            assert head.poll() is None and time.monotonic() < end, "no cluster"
            time.sleep(0.1)
        driver = [sys.executable, __file__, *sys.argv[1:], f"127.0.0.1:{port}"]
        subprocess.run(driver, env=env, check=True, timeout=120)
    finally:
        head.terminate()
        head.wait(timeout=30)
    told = {name: content for name, (content, _) in results(FOLDER / "address").items()}
    assert told == {name: content for name, (content, _) in results(FOLDER / "serial").items()}
    assert len(told) == len(serial)


def listens(port):
    """Whether a server listens on this port of loopback."""
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0


def driver_killed(serial):
    """Kills a driver when it has some results; the next driver computes only the others."""
    folder = FOLDER / "driver"
    driver = subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "drive"])
    while len(results(folder)) < COUNT // 4:
        assert driver.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    driver.kill()
    driver.wait()
    before = results(folder)
    assert len(before) < COUNT, "nothing was left to be done"
    resumed = pagetide.sweep(experiments(), folder=folder, workers=1, progress=False)
    after = results(folder)
    assert bytes(resumed) == bytes(serial)
    assert {name: after[name] for name in before} == before, "what was done was done again"
    told = [json.loads(line)["key"] for line in (folder / "experiments.jsonl").read_text().splitlines()]
    assert sorted(f"{key}.json" for key in told) == sorted(after)
    return {"kept_of_killed_driver": len(before)}


if __name__ == "__main__":
    if sys.argv[4:] == ["drive"]:
        pagetide.sweep(experiments(), folder=FOLDER / "driver", workers=1, progress=False)
    elif sys.argv[4:]:
        pagetide.sweep(experiments(), folder=FOLDER / "address", address=sys.argv[4], progress=False)
    else:
        main()

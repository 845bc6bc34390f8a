"""Experiments on Ray: on this machine's processors, or on a cluster's.

A task is an experiment. One whose worker dies is done again by another, :data:`RETRIES` times; so is one whose machine is lost.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from ._errors import Failed, MissingPackageError, PagetideError
from ._experiment import Experiment
from ._simulate import outcome_of

RETRIES = 3
"""An experiment that ends its worker each time, say because memory is short, is not tried for ever."""
AHEAD = 4
"""Tasks that wait for each processor: enough that none is idle while the driver writes a result."""
LOCAL_ONLY = {"RAY_AUTH_MODE": "token", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
"""What keeps other users of this machine out of a Ray of our own (the loopback interface is everybody's; the default since Ray 2.59), it on that
interface (the name is Ray's: so it does on desktops), and from calling home."""
LOOPBACK = ("127.0.0.1", "::1")

Outcome = tuple[bytes, "Failed | None"]


def outcomes(experiments: list[tuple[str, Experiment]], workers: int | None, address: str | None) -> Iterator[tuple[str, Outcome]]:
    """The outcome of each experiment with its key, in the order in which they come."""
    try:
        for name, value in LOCAL_ONLY.items():
            if address is None:
                os.environ.setdefault(name, value)
        import ray
        # A mere folder of this name, such as /tmp/ray, is imported, too, and has nothing.
        from ray import init as _
    except ImportError as error:
        hint = "in pagetide's repository: pip install '.[ray]', or sweep with workers=1"
        raise MissingPackageError(f"cannot sweep with several workers: {error}", hint) from error
    is_ours = not ray.is_initialized()
    try:
        if is_ours:
            _connect(ray, workers, address)
        yield from _gather(ray, experiments)
    finally:
        if is_ours:
            ray.shutdown()


def _connect(ray: Any, workers: int | None, address: str | None) -> None:
    if address is not None:
        try:
            ray.init(address=address, logging_level="ERROR", log_to_driver=False)
        except Exception as error:
            what = f"cannot reach the Ray cluster at {address}: {error}"
            raise PagetideError(what, "give HOST:PORT or ray://HOST:PORT of its head; `ray status` there says if it runs") from error
        return
    version = tuple(int(part) for part in ray.__version__.split(".")[:2] if part.isdigit())
    if version < (2, 52) or os.environ.get("RAY_AUTH_MODE") != "token":
        # Earlier ones know no tokens.
        what = "cannot start a Ray of our own: any user of this machine could run code by it"
        raise PagetideError(what, "have Ray 2.52 or later and RAY_AUTH_MODE=token, or call ray.init() yourself")
    ray.init(address="local", num_cpus=workers, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    if ray.util.get_node_ip_address() not in LOOPBACK:
        what = "cannot start a Ray of our own: it would listen to other machines, since ray was imported before the sweep began"
        settings = " ".join(f"{name}={value}" for name, value in LOCAL_ONLY.items())
        raise PagetideError(what, f"import it later, set {settings} before, or call ray.init() yourself")


def _gather(ray: Any, experiments: list[tuple[str, Experiment]]) -> Iterator[tuple[str, Outcome]]:
    task = ray.remote(num_cpus=1, max_retries=RETRIES)(perform)
    room = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
    left = iter(experiments)
    waiting: dict[Any, str] = {}
    while True:
        while len(waiting) < room and (following := next(left, None)):
            key, experiment = following
            waiting[task.remote(key, experiment)] = key
        if not waiting:
            return
        # In slices, so that ^C is heard.
        done, _ = ray.wait(list(waiting), num_returns=1, timeout=0.5)
        for one in done:
            yield waiting.pop(one), _outcome(ray, one)


def _outcome(ray: Any, task: Any) -> Outcome:
    try:
        outcome: Outcome = ray.get(task)
        return outcome
    except ray.exceptions.RayError as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        what = f"its worker died {RETRIES + 1} times, or its result was lost: {lines[0]}"
        return b"", (1, what, "see if memory is short; sweep again: what is done is not done again")


def perform(key: str, experiment: Experiment) -> Outcome:
    """One experiment, in this process or in a worker; refused where pagetide or files are not what the key says, before and after."""
    try:
        if experiment.key() == key:
            outcome = outcome_of(experiment.words(), False)
            if experiment.key() == key:
                return outcome
    except PagetideError as error:
        return b"", (1, error.what, error.hint)
    what = "a file of the experiment has changed since the sweep began, or the worker's machine has another one or another pagetide"
    return b"", (1, what, "sweep again; all machines need the same version, and files at the same paths")

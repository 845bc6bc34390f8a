"""How old the pages of running programs are: ``pagetide report``."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Mapping
from functools import cached_property

from ._call import chunks, option, result, time
from ._errors import UsageError
from ._progress import Progress
from ._result import Result, Table


AGE = dict.fromkeys(("node", "older_than_ms", "younger_than_ms", "anon_bytes", "file_bytes"), "int64")
"""Columns of ages, and their types."""
PROCESS = {"pid": "int64", "command": "str", "uid": "int64", "cgroup": "str"} | dict.fromkeys(
    (
        "resident_bytes",
        "mapped_bytes",
        "swapped_bytes",
        "young_bytes",
        "older_than_10s_bytes",
        "older_than_1m_bytes",
        "older_than_10m_bytes",
        "unknown_age_bytes",
    ),
    "int64",
)
"""Columns of processes, and their types."""
POINT = {
    "bytes": "int64",
    "idle_ms": "int64",
    "refaults_per_minute": "float64",
    "miss_ratio": "float64",
    "refaulted_pages": "int64",
    "watched_ms": "int64",
}
"""Columns of a curve, and their types."""


class Report(Result):
    """One report; ``data`` has the fields of docs/usage.md."""

    @cached_property
    def ages(self) -> Table:
        """Memory by page age: ``node``, ``older_than_ms`` and ``younger_than_ms`` (the bin's edges; -1 of none), ``anon_bytes``,
        ``file_bytes``."""
        rows = []
        for node, told in enumerate(self.data["page_age"]):
            bins = told["bins"]
            ends = [later["older_than_ms"] for later in bins[1:]] + [-1]
            for one, end in zip(bins, ends):
                edges = (one["older_than_ms"], end)
                rows.append((told.get("node", node), *edges, one["anon_bytes"], one["file_bytes"]))
        return Table.of_rows("Page age", list(AGE), rows, AGE)

    @cached_property
    def processes(self) -> Table:
        """The processes, each with its bytes by what they are (docs/usage.md)."""
        return _table("Processes", PROCESS, self.data["processes"])

    @cached_property
    def curve(self) -> Table | None:
        """Refaults a minute by memory size, if ``curve=True`` asked for it."""
        curve = self.data.get("curve")
        return None if curve is None else _table("What less memory would cost", POINT, curve["points"])


def _table(title: str, kinds: Mapping[str, str], objects: list[dict[str, object]]) -> Table:
    """With the columns of its first row; of none, those that there always are, of the same types."""
    names = list(objects[0]) if objects else list(kinds)
    return Table.of_rows(title, names, [[one.get(name) for name in names] for one in objects], kinds)


def report(
    target: int | str | None = None,
    *,
    cgroup: str | os.PathLike[str] | None = None,
    all: bool = False,
    time: float | str | None = None,
    age_every: float | str | None = None,
    max_wait: float | str | None = None,
    source: str | None = None,
    curve: bool = False,
    refaults: float | None = None,
    root: str | os.PathLike[str] | None = None,
    progress: Progress = None,
) -> Report:
    """How much memory was in use, and how much was not touched for how long, as ``pagetide report --json`` tells it.

    Args:
        target: A process with its descendants, by its pid, or a tenant of ``pagetide serve``, by its path.
        cgroup: The processes of this control group and of those below it, instead.
        all: All processes of the host, instead.
        time: Seconds to watch, or a time such as ``"2m"``; 10 by default.
        age_every: Seconds between two looks; 1 by default, more in a long time.
        max_wait: Seconds that a look may make a program wait.
        source: Where ages come from: ``page-tables``, ``idle-bitmap``, ``referenced``, ``none``; the best by default.
        curve: What less memory would cost, too.
        refaults: Percent of the working set that may come back in a minute at the size to choose; 0.2 by default.
        root: The root of the tenant's tree.
        progress: See :data:`pagetide.Progress`.

    Raises:
        UsageError: The target or times make no sense.
        MissingError: No ages can be had here.
        PagetideError: There is no such target, or no right to look at it.
    """
    looks = _words(target, cgroup, all, age_every, max_wait, source, root)
    words = ["report", "--json", *option("for", _time(time)), *option("curve", curve), *option("refaults", refaults)]
    return Report(result(words + looks, progress))


def watch(
    target: int | str | None = None,
    *,
    every: float | str = 1.0,
    time: float | str | None = None,
    cgroup: str | os.PathLike[str] | None = None,
    all: bool = False,
    age_every: float | str | None = None,
    max_wait: float | str | None = None,
    source: str | None = None,
    root: str | os.PathLike[str] | None = None,
) -> Iterator[Report]:
    """A report each ``every`` seconds, as ``pagetide report --watch --json`` prints them, until the processes have ended or
    ``time`` has passed. Arguments and errors are those of :func:`report`. Ends when the iterator is closed or dropped."""
    looks = _words(target, cgroup, all, age_every, max_wait, source, root)
    words = ["report", "--json", *option("watch", _time(every)), *option("for", _time(time)), *looks]
    rest = b""
    for chunk in chunks(words, False):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield Report(line + b"\n")


_time = time


def _words(
    target: int | str | None,
    cgroup: str | os.PathLike[str] | None,
    all: bool,
    age_every: float | str | None,
    max_wait: float | str | None,
    source: str | None,
    root: str | os.PathLike[str] | None,
) -> list[str]:
    if hasattr(target, "__index__") and not isinstance(target, bool):
        target = operator.index(target)  # type: ignore[arg-type]
    if isinstance(target, bool) or not isinstance(target, (int, str, type(None))):
        raise UsageError(f"cannot report on {target!r}: it is no pid and no tenant", "give a number, or a path")
    words = [*option("cgroup", cgroup), *option("all", all), *option("age-every", time(age_every))]
    words += [*option("max-wait", time(max_wait)), *option("source", source), *option("root", root)]
    return words if target is None else [*words, "--", str(target)]

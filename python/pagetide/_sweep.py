"""Many experiments: in this process, or on Ray; never one twice, none lost."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from ._errors import Failed, UsageError, PagetideError, error_of
from ._experiment import Experiment
from ._folder import Folder
from ._progress import Progress, Tell, telling
from ._ray import Outcome, outcomes, perform
from ._result import Table
from ._simulate import Simulated


class Sweep(Sequence[Simulated]):
    """The results of a sweep in the order of its experiments, whoever did them and when."""

    def __init__(self, experiments: Sequence[Experiment], results: Sequence[bytes]) -> None:
        self.experiments = tuple(experiments)
        self._results = tuple(Simulated(result) for result in results)

    def __len__(self) -> int:
        return len(self._results)

    @overload
    def __getitem__(self, at: int) -> Simulated: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Simulated]: ...
    def __getitem__(self, at: int | slice) -> Simulated | Sequence[Simulated]:
        return self._results[at]

    def __bytes__(self) -> bytes:
        """What ``pagetide sim --json`` prints of each, one behind the other."""
        return b"".join(map(bytes, self._results))

    def table(self, which: int | str = 0) -> Table:
        """One table of all experiments, by its number or title: their rows one behind the other, after columns of what was
        asked for (``experiment``, counted from 0, ``seed``, and each value that was set)."""
        names: list[str] = []
        rows: list[dict[str, object]] = []
        for number, (experiment, result) in enumerate(zip(self.experiments, self._results)):
            seed = result.data["seed"]
            asked = {"experiment": number, "scenario": experiment.scenario, "seed": seed} | dict(experiment.set)
            table = _find(result, which)
            names += [name for name in [*asked, *table.columns] if name not in names]
            columns = table.columns.items()
            rows += [asked | {name: column[n] for name, column in columns} for n in range(len(table))]
        return Table.of_rows(str(which), names, [[row.get(name) for name in names] for row in rows])


def _find(result: Simulated, which: int | str) -> Table:
    for number, table in enumerate(result.tables):
        if which in (number, table.title):
            return table
    titles = ", ".join(table.title for table in result.tables)
    raise UsageError(f"no table is {which!r}", f"there are: {titles}")


class SweepError(PagetideError):
    """Some experiments of a sweep failed; the results of the others are in its folder."""

    def __init__(self, failures: Sequence[tuple[Experiment, PagetideError]], of: int) -> None:
        experiment, error = failures[0]
        first = f"{experiment.scenario} {dict(experiment.set)} seed {experiment.seed}: {error.what}"
        super().__init__(f"{len(failures)} of {of} experiments failed; the first: {first}", error.hint)
        self.failures = tuple(failures)
        self._of = of

    def __reduce__(self) -> tuple[type[SweepError], tuple[object, int]]:
        """What another process needs to have it, too."""
        return SweepError, (self.failures, self._of)


def sweep(
    experiments: Iterable[Experiment],
    *,
    folder: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    address: str | None = None,
    progress: Progress = None,
) -> Sweep:
    """Runs experiments on Ray, or one after the other: results and their order are the same, byte for byte.

    Args:
        experiments: Which; one that is there twice is done once.
        folder: Where results are kept as they come, a file each. What is there is not done again: after a killed driver, call
            it again. Without one they are in memory alone.
        workers: How many at once on this machine; as many as it has processors by default. 1 needs no Ray: they are done in
            this process.
        address: Of a Ray cluster, instead: ``HOST:PORT``, ``ray://HOST:PORT``, or ``auto``. Its machines need this version of
            pagetide, and files of experiments at the same paths. A Ray that the caller has connected to is used as it is.
        progress: See :data:`pagetide.Progress`.

    Raises:
        SweepError: Some failed; all others were done.
        PagetideError: A file cannot be read, the folder not be written, or the cluster not be reached.
    """
    if workers is not None and (workers < 1 or address is not None):
        raise UsageError("cannot tell how many workers", "give workers=1 or more, or the address of a cluster, not both")
    asked = [(one.key(), one) for one in experiments]
    with telling(progress) as tell:
        kept = Folder(folder) if folder is not None else None
        try:
            done, failed = _complete(dict(asked), kept, (workers, address), tell)
        finally:
            if kept is not None:
                kept.close()
    failures = [(one, error_of(failed[key])) for key, one in asked if key in failed]
    if failures:
        raise SweepError(failures, len(asked))
    return Sweep([one for _, one in asked], [done[key] for key, _ in asked])


def _complete(
    asked: dict[str, Experiment], kept: Folder | None, where: tuple[int | None, str | None], tell: Tell
) -> tuple[dict[str, bytes], dict[str, Failed]]:
    """Takes what is kept, and does what is missing."""
    done: dict[str, bytes] = {}
    failed: dict[str, Failed] = {}
    if kept is not None:
        kept.describe(asked.items())
        done = {key: result for key in asked if (result := kept.read(key)) is not None}
    missing = [(key, one) for key, one in asked.items() if key not in done]
    tell("sweep", len(done) / max(1, len(asked)))
    for key, (result, failure) in _outcomes(missing, *where):
        if failure is not None:
            failed[key] = failure
        else:
            if kept is not None:
                kept.write(key, result)
            done[key] = result
        tell("sweep", (len(done) + len(failed)) / len(asked))
    return done, failed


def _outcomes(missing: list[tuple[str, Experiment]], workers: int | None, address: str | None) -> Iterator[tuple[str, Outcome]]:
    if not missing:
        return
    if workers == 1:
        for key, one in missing:
            yield key, perform(key, one)
    else:
        yield from outcomes(missing, workers, address)

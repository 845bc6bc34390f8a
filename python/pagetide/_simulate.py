"""Experiments on simulated memory: ``pagetide sim``."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from ._call import option, printed, result
from ._errors import Failed, error_of
from ._progress import Progress
from ._result import Result, Table

Settings = Mapping[str, object]
"""Values of an experiment to replace, by their keys: ``{"run.duration": "10s"}``."""


class Simulated(Result):
    """What an experiment gave."""

    @cached_property
    def tables(self) -> list[Table]:
        """Its tables, in its order."""
        tables = self.data["tables"]
        return [Table.of_rows(one["title"], one["columns"], one["rows"]) for one in tables]

    @property
    def holds(self) -> bool:
        """Whether all of its claims hold; ``data["claims"]`` has them."""
        return all(claim["holds"] for claim in self.data["claims"])


def value_text(value: object) -> str:
    """A value as the command line takes it."""
    if isinstance(value, str):
        return value
    # Numbers of numpy are none to json.
    is_number = hasattr(value, "item") and not isinstance(value, (bool, int, float))
    return json.dumps(value.item() if is_number else value, ensure_ascii=False)  # type: ignore[attr-defined]


def words_of(
    scenario: str | os.PathLike[str], settings: Settings, seed: int | None, scale: int | None, timings: bool
) -> list[str]:
    """The words of the command line."""
    words = ["sim", "--json", *option("timings", timings), *option("seed", seed), *option("scale", scale)]
    for key, value in settings.items():
        words += option("set", f"{key}={value_text(value)}")
    return [*words, "--", os.fspath(scenario)]


def outcome_of(words: list[str], progress: Progress) -> tuple[bytes, Failed | None]:
    """What an experiment gave, or why it gave nothing: claims that do not hold are a result."""
    output, failed = printed(words, progress)
    return output, None if output else failed


def simulate(
    scenario: str | os.PathLike[str],
    *,
    set: Settings | None = None,
    seed: int | None = None,
    scale: int | None = None,
    timings: bool = False,
    progress: Progress = None,
) -> Simulated:
    """Runs an experiment, as ``pagetide sim --json`` does. The same seed gives the same bytes, on every machine.

    Args:
        scenario: The name of a built-in one (:func:`experiments`), or the path of a TOML file (docs/simulator.md); a file may
            replay a recording.
        set: Values to replace.
        seed: Of everything random; 1 by default, or what the file says.
        scale: Divides the document's sizes, 1 to 4096.
        timings: Include what depends on this machine (seconds, instructions).
        progress: See :data:`pagetide.Progress`.

    Raises:
        UsageError: There is no such experiment or value.
        PagetideError: The file cannot be read, or is no experiment.
    """
    output, failed = outcome_of(words_of(scenario, set or {}, seed, scale, timings), progress)
    if failed is not None:
        raise error_of(failed)
    return Simulated(output)


def experiments() -> list[dict[str, Any]]:
    """The built-in experiments: ``name``, ``about``, and the ``document`` that they repeat."""
    told: list[dict[str, Any]] = json.loads(result(["sim", "--list", "--json"], False))
    return told

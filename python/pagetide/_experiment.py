"""What a sweep is made of: experiments, each with a key that says all that its result depends on."""

from __future__ import annotations

import hashlib
import json
import operator
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from ._errors import PagetideError
from ._native import version
from ._simulate import Settings, value_text, words_of

QUOTED = re.compile(r'"((?:[^"\\\n]|\\.)*)"|' + r"'([^'\n]*)'")
"""A text of TOML, on one line: with escapes, and as it is."""
LONG = re.compile(r"\\U([0-9A-Fa-f]{8})")
"""The escape of TOML that JSON does not have."""


@dataclass(frozen=True)
class Experiment:
    """A scenario, values of it that are replaced, and a seed: the arguments of :func:`pagetide.simulate`.

    Its result depends on these, on the files that they name, and on the version of pagetide, and so does its :meth:`key`.
    """

    scenario: str
    set: Settings = field(default_factory=dict)
    seed: int | None = None
    scale: int | None = None

    def __post_init__(self) -> None:
        # The order in which values were given is no part of it, nor whether one is a number or its text.
        ordered = {key: value_text(value) for key, value in sorted(self.set.items())}
        object.__setattr__(self, "scenario", os.fspath(self.scenario))
        object.__setattr__(self, "set", ordered)
        # Numbers of numpy are as good as Python's, and JSON knows these alone.
        for name in ("seed", "scale"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else operator.index(value))

    def __hash__(self) -> int:
        return hash((self.scenario, tuple(self.set.items()), self.seed, self.scale))

    def words(self) -> list[str]:
        """The words of the command line."""
        return words_of(self.scenario, self.set, self.seed, self.scale, False)

    def describe(self) -> dict[str, Any]:
        """It as JSON would have it."""
        return {"scenario": self.scenario, "set": dict(self.set), "seed": self.seed, "scale": self.scale}

    def key(self) -> str:
        """64 hexadecimal digits: the same for the same result, on every machine and in every order.

        Raises:
            PagetideError: A file cannot be read.
        """
        told = self.describe() | {"pagetide": version, "files": self._files()}
        # Where a file lies changes no result, its name may be the experiment's.
        told["scenario"] = Path(self.scenario).name if told["files"] else self.scenario
        text = json.dumps(told, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _files(self) -> Mapping[str, str]:
        """The scenario's own file and those it names, by what is in them; none of a built-in experiment."""
        path = Path(self.scenario)
        if path.suffix.lower() != ".toml" and "/" not in self.scenario:
            return {}
        try:
            text = path.read_text(encoding="utf-8")
            # Which texts are names of files only the simulator knows: whatever is one counts.
            values = [str(value) for value in self.set.values()]
            quoted = QUOTED.findall("\n".join([text, *values]))
            names: list[str] = [*(unescaped(a) or b for a, b in quoted), *values]
            named = {name: path.parent / name for name in names if name and "\0" not in name}
            found = {name: digest(file) for name, file in sorted(named.items()) if is_file(file)}
            return {"": digest(path)} | found
        except (OSError, UnicodeDecodeError) as error:
            hint = "give the path of an experiment file, at the same place on each machine"
            raise PagetideError(f"cannot read {self.scenario}: {error}", hint) from error


def unescaped(text: str) -> str:
    """A text between double quotes as it is meant; as it stands if it is none.

    (The story: a recording that was named with an escape was in no key, and a sweep gave the result of the one before it.)
    """
    try:
        text = LONG.sub(lambda found: chr(int(found[1], 16)), text)
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return text


def is_file(path: Path) -> bool:
    """Whether there is such a file; not of names that can be none."""
    try:
        return path.is_file()
    except OSError:
        return False


def digest(path: Path) -> str:
    """What is in a file."""
    now = path.stat()
    return _digest(os.fspath(path), now.st_ino, now.st_size, now.st_mtime_ns)


@lru_cache(maxsize=256)
def _digest(path: str, *_identity: int) -> str:
    """Recordings are large, and sweeps name one a thousand times: read once as long as it stays as it is."""
    with open(path, "rb") as file:
        state = hashlib.sha256()
        while part := file.read(1 << 20):
            state.update(part)
    return state.hexdigest()

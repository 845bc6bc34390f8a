"""Where a sweep keeps its results: a folder with a file an experiment.

A file comes into being whole (written beside, synchronized, renamed), and its name is the experiment's key: whoever is killed,
what has a file is done, and what has none is not. ``experiments.jsonl`` says which key is which experiment; it is for readers
and decides nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable
from pathlib import Path

from ._errors import PagetideError
from ._experiment import Experiment

INDEX = "experiments.jsonl"


class Folder:
    """A folder of results, held by one sweep at a time."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._held = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise PagetideError(f"cannot make the folder of results {self.path}: {error}", "give another") from error
        try:
            # Gone with this process, however it ends.
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for left in self.path.glob(".*.part"):
                left.unlink()
        except BlockingIOError as error:
            os.close(self._held)
            what = f"cannot use the folder of results {self.path}: another sweep is writing to it"
            raise PagetideError(what, "wait for that one, or give another folder") from error
        except OSError as error:
            os.close(self._held)
            raise PagetideError(f"cannot use the folder of results {self.path}: {error}", "give another") from error

    def close(self) -> None:
        """Lets go of it."""
        os.close(self._held)

    def read(self, key: str) -> bytes | None:
        """The result of an experiment; ``None`` if there is none yet."""
        try:
            return self._file(key).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise PagetideError(f"cannot read {self._file(key)}: {error}", "remove it: it is done again then") from error

    def write(self, key: str, result: bytes) -> None:
        """Keeps a result."""
        self._put(self._file(key), result)

    def describe(self, experiments: Iterable[tuple[str, Experiment]]) -> None:
        """Says which experiments these keys are, beside those that are there."""
        index = self.path / INDEX
        try:
            lines = index.read_text(encoding="utf-8").splitlines() if index.exists() else []
        except (OSError, UnicodeDecodeError) as error:
            raise PagetideError(f"cannot read {index}: {error}", "remove it: nothing depends on it") from error
        known = set(lines)
        told = (json.dumps({"key": key} | one.describe()) for key, one in experiments)
        new = [line for line in dict.fromkeys(told) if line not in known]
        if new:
            self._put(index, "".join(f"{line}\n" for line in lines + new).encode())

    def _file(self, key: str) -> Path:
        return self.path / f"{key}.json"

    def _put(self, path: Path, content: bytes) -> None:
        part = self.path / f".{path.name}.part"
        try:
            with open(part, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        except OSError as error:
            hint = "make room, and call it again: what is there is not done again"
            raise PagetideError(f"cannot write {path}: {error}", hint) from error

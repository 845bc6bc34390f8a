"""Commands of pagetide as calls: the words of the command line go in, what it prints comes out.

The work is done by a thread without the interpreter's lock; this one waits for it in slices, so that ^C and other signals
are handled, and progress is told by the caller's own thread.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

from ._errors import Failed, UsageError, error_of
from ._native import Call
from ._progress import Progress, telling

SLICE = 0.1
"""Seconds between two looks at signals and progress."""


def chunks(words: list[str], progress: Progress) -> Iterator[bytes]:
    """What the command prints, as it comes; whole lines where it prints lines.

    Raises:
        PagetideError: what the command would have told on standard error, after all of its output.
    """
    call = Call(words)
    try:
        with telling(progress) as tell:
            while True:
                output, what, share, end = call.wait(SLICE)
                if what is not None:
                    tell(what, share)
                if output:
                    yield output
                if end is not None:
                    break
    finally:
        call.stop()
    if end[0] != 0:
        raise error_of(end)


def printed(words: list[str], progress: Progress) -> tuple[bytes, Failed | None]:
    """All that the command prints, and how it failed."""
    output = bytearray()
    call = Call(words)
    try:
        with telling(progress) as tell:
            while True:
                new, what, share, end = call.wait(SLICE)
                output += new
                if what is not None:
                    tell(what, share)
                if end is not None:
                    return bytes(output), end if end[0] != 0 else None
    finally:
        call.stop()


def result(words: list[str], progress: Progress) -> bytes:
    """All that the command prints.

    Raises:
        PagetideError: what the command would have told on standard error.
    """
    output, failed = printed(words, progress)
    if failed is not None:
        raise error_of(failed)
    return output


def option(name: str, value: object) -> list[str]:
    """``--name=value``, or nothing of a value that is not given."""
    if value is None or value is False:
        return []
    if value is True:
        return [f"--{name}"]
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    return [f"--{name}={value}"]


def time(value: float | str | None) -> str | None:
    """Seconds as a number, or a time as the command line has it: ``"500ms"``, ``"2m"``."""
    if value is None or isinstance(value, str):
        return value
    if not math.isfinite(value) or 0 < value < 0.001:
        raise UsageError(f"cannot use {value!r} as a time", "give seconds, no less than 0.001, or a text such as '500ms'")
    return f"{round(value * 1000)}ms"

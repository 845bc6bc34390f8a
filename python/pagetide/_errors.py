"""What goes wrong, as exceptions that say what failed, why, and what to do."""

from __future__ import annotations

Failed = tuple[int, str, str]
"""An exit code of the command line (docs/interfaces.md), what failed, and what to do."""


class PagetideError(Exception):
    """Something failed. ``what`` says what and why, ``hint`` what to do."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what, hint)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.what}\n  hint: {self.hint}" if self.hint else self.what


class UsageError(PagetideError, ValueError):
    """What was asked for makes no sense (exit code 2)."""


class MissingError(PagetideError):
    """A privilege or a feature of the kernel is missing (exit code 3)."""


class MissingPackageError(PagetideError, ImportError):
    """A Python package that is not always there is needed."""


def error_of(failed: Failed) -> PagetideError:
    """The exception of a failure of the command line."""
    code, what, hint = failed
    kinds = {2: UsageError, 3: MissingError}
    return kinds.get(code, PagetideError)(what, hint)

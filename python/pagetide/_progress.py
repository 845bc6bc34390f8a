"""Progress: a function of the caller's, or tqdm's bar, or nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Union

from ._errors import MissingPackageError

Tell = Callable[[str, Union[float, None]], None]
"""Called with what is being done, and how much of it is done: 0 to 1, ``None`` if nobody knows."""

Progress = Union[bool, Tell, None]
"""``True``: a bar of tqdm's on standard error. ``False``: nothing. ``None``: a bar if tqdm is installed and standard error is
a terminal. Else a function, called in the caller's thread; what it raises ends the work."""


@contextmanager
def telling(progress: Progress) -> Iterator[Tell]:
    """What is to be told of progress while the block runs."""
    if callable(progress):
        yield progress
        return
    if progress is False or (progress is None and not sys.stderr.isatty()):
        yield lambda what, share: None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        if progress is None:
            yield lambda what, share: None
            return
        raise MissingPackageError(
            f"cannot show progress: {error}", "in pagetide's repository: pip install '.[progress]', or give a function"
        ) from error
    with tqdm(total=1.0, leave=False, bar_format="{desc} {percentage:3.0f}% {bar} {elapsed}") as bar:

        def tell(what: str, share: float | None) -> None:
            bar.set_description_str(what, refresh=False)
            bar.n = share or 0.0
            bar.refresh()

        yield tell

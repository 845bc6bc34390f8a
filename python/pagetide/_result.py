"""What a command printed, and tables in it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ._errors import MissingPackageError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

INSTALL = "in pagetide's repository: pip install '.[arrow]'"


class Result:
    """What ``pagetide COMMAND --json`` prints, byte for byte: ``bytes(result)``. ``data`` is the object in it."""

    def __init__(self, printed: bytes) -> None:
        self._printed = printed

    def __bytes__(self) -> bytes:
        return self._printed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Result) and type(other) is type(self) and other._printed == self._printed

    def __hash__(self) -> int:
        return hash(self._printed)

    @cached_property
    def data(self) -> dict[str, Any]:
        """The JSON object. Fields have their unit in their name (docs/usage.md)."""
        told: dict[str, Any] = json.loads(self._printed)
        return told


class Table:
    """Columns of equal length, with names that say their unit."""

    def __init__(self, title: str, columns: dict[str, list[Any]], kinds: Mapping[str, str] | None = None) -> None:
        """``kinds``: ``int64``, ``float64`` or ``str`` of columns whose type does not depend on their values, so that tables of one
        kind can be joined, also one without a row."""
        self.title = title
        self.columns = columns
        self._kinds = kinds or {}

    @classmethod
    def of_rows(
        cls, title: str, names: Sequence[str], rows: Sequence[Sequence[Any]], kinds: Mapping[str, str] | None = None
    ) -> Table:
        """A table by its rows."""
        return cls(title, {name: [row[n] for row in rows] for n, name in enumerate(names)}, kinds)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), []))

    def __repr__(self) -> str:
        return f"Table({self.title!r}, {len(self)} rows of {', '.join(self.columns)})"

    def numpy(self) -> dict[str, np.ndarray[Any, Any]]:
        """A numpy array a column: int64 of counts, float64 of figures (NaN of what is not known), str of names. A count that is not
        known makes its column one of figures.

        The arrays are made once: whoever writes to one writes to them all, also to those in :meth:`arrow`.
        """
        return dict(self._arrays)

    def arrow(self) -> pa.Table:
        """An Arrow table. Columns of numbers that are all known are the arrays of :meth:`numpy`, not copies; of others what is
        not known is null."""
        try:
            import pyarrow
        except ImportError as error:
            raise MissingPackageError(f"cannot make an Arrow table: {error}", INSTALL) from error
        arrays = self._arrays
        types = {"int64": pyarrow.int64(), "float64": pyarrow.float64(), "str": pyarrow.string()}
        columns = {}
        for name, values in self.columns.items():
            kind = self._kind(name)
            if kind == "str":
                # One column has one type: numbers among texts are texts.
                values = [None if value is None else str(value) for value in values]
            is_whole = kind != "str" and None not in values
            columns[name] = pyarrow.array(arrays[name] if is_whole else values, type=types[kind])
        return pyarrow.table(columns)

    def _kind(self, name: str) -> str:
        """The type of a column: what it was said to be, else what its values are."""
        known = [value for value in self.columns[name] if value is not None]
        if name in self._kinds or not known:
            return self._kinds.get(name, "str")
        if not all(isinstance(value, (int, float)) for value in known):
            return "str"
        return "int64" if all(isinstance(value, int) for value in known) else "float64"

    @cached_property
    def _arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        try:
            import numpy
        except ImportError as error:
            raise MissingPackageError(f"cannot make arrays: {error}", INSTALL) from error
        arrays = {}
        for name, values in self.columns.items():
            kind = self._kind(name)
            if kind == "str":
                arrays[name] = numpy.array(["" if value is None else str(value) for value in values], dtype=numpy.str_)
            else:
                # An integer cannot say that it is not known.
                kind = "float64" if None in values else kind
                arrays[name] = numpy.array([float("nan") if v is None else v for v in values], dtype=kind)
        return arrays

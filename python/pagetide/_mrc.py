"""Miss-ratio curves of traces: ``pagetide mrc``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cached_property

from ._call import option, result
from ._progress import Progress
from ._result import Result, Table


class Curves(Result):
    """Miss ratios by memory size and policy; ``data`` has the fields of docs/traces.md."""

    @cached_property
    def sizes(self) -> Table:
        """``pages`` and ``bytes`` of memory, and a column of miss ratios (0 to 1) a policy."""
        sizes = self.data["sizes"]
        columns = {name: [size[name] for size in sizes] for name in ("pages", "bytes")}
        for policy in sizes[0]["miss_ratio"] if sizes else ():
            columns[policy] = [size["miss_ratio"][policy] for size in sizes]
        # A ratio of 0 or 1 at all sizes is a ratio, too.
        kinds = {name: "int64" if name in ("pages", "bytes") else "float64" for name in columns}
        return Table("Miss ratios", columns, kinds)


def mrc(
    trace: str | os.PathLike[str],
    *,
    sizes: Iterable[int | str] | str = (),
    policy: Iterable[str] | str = "lru",
    sampled: float | None = None,
    format: str | None = None,
    columns: str | None = None,
    delimiter: str | None = None,
    header: str | None = None,
    text_ids: bool = False,
    cut_off: bool = False,
    progress: Progress = None,
) -> Curves:
    """What share of a trace's references would miss, by memory size, as ``pagetide mrc --json`` tells it.

    Args:
        trace: A trace or a recording, plain or compressed with zstd (docs/formats.md).
        sizes: Memory sizes in pages (``1000``), bytes (``"64M"``) or shares of the footprint (``"10%"``); every 5% by default.
        policy: Which policies, or ``"all"``.
        sampled: Look at this share of the pages only, 0 to 1.
        format: The trace's format, if its name and content do not tell.
        columns: Where a CSV has what: ``"id=1,time=2,op=3"``.
        delimiter: Between the columns of a CSV.
        header: Whether a CSV's first line names the columns: ``auto``, ``yes``, ``no``.
        text_ids: Ids in a CSV are text.
        cut_off: Read a trace that was cut off up to where it ends.
        progress: See :data:`pagetide.Progress`.

    Raises:
        UsageError: The arguments make no sense.
        PagetideError: The trace cannot be read.
    """
    some = sizes if isinstance(sizes, str) else ",".join(map(str, sizes))
    policies = policy if isinstance(policy, str) else ",".join(policy)
    words = ["mrc", "--json", *option("policy", policies), *option("sizes", some or None)]
    words += [*option("sampled", sampled), *option("format", format), *option("columns", columns)]
    words += [*option("delimiter", delimiter), *option("header", header)]
    words += [*option("text-ids", text_ids), *option("cut-off", cut_off)]
    return Curves(result([*words, "--", os.fspath(trace)], progress))

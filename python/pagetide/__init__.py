"""pagetide: how old the pages of running programs are, miss-ratio curves of traces, and memory simulated.

Functions do what the commands of the same names do, and give what those print with ``--json``, byte for byte
(``bytes(result)``), with tables in it as Arrow or numpy. Linux on x86-64.
"""

from ._errors import MissingError, MissingPackageError, PagetideError, UsageError
from ._experiment import Experiment
from ._mrc import Curves, mrc
from ._native import version as __version__
from ._progress import Progress
from ._report import Report, report, watch
from ._result import Result, Table
from ._simulate import Simulated, experiments, simulate
from ._sweep import Sweep, SweepError, sweep

__all__ = [
    "Curves",
    "Experiment",
    "MissingError",
    "MissingPackageError",
    "PagetideError",
    "Progress",
    "Report",
    "Result",
    "Simulated",
    "Sweep",
    "SweepError",
    "Table",
    "UsageError",
    "__version__",
    "experiments",
    "mrc",
    "report",
    "simulate",
    "sweep",
    "watch",
]

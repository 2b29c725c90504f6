"""`calibration.yaml` of a build: the ranges that its quantiser took, and which lines it reads."""

from __future__ import annotations

from nnkit.calibrate.table import format_table
from nnkit.quantize.used_ranges import UsedRanges

_NOT_READ = "  # not read"
_EXPLANATION = """\
# Lines marked 'not read' change nothing: these values lie within a layer, or have the format of what they come from.
"""


def calibration_table(used: UsedRanges) -> str:
    """The table's text. `nnkit.calibrate.read_table` gives back the same ranges, to the last bit."""
    head, start, values = format_table(used.statistics).partition("values:\n")
    lines = values.splitlines()
    marked = [
        line if name in used.read else line + _NOT_READ
        for name, line in zip(used.statistics.ranges, lines, strict=True)
    ]
    comments, key, header = head.partition("nnkit_calibration:")
    explanation = _EXPLANATION if marked != lines else ""
    return comments + explanation + key + header + start + "".join(line + "\n" for line in marked)

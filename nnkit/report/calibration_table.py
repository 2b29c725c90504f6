"""`calibration.yaml` of a build: the ranges that its quantiser took, and which lines it reads."""

from __future__ import annotations

import re
from collections.abc import Mapping

import yaml

from nnkit.calibrate.stats import ValueRange
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


def lines_read(text: str) -> frozenset[str]:
    """The values of such a table whose lines the quantiser reads."""
    return frozenset(_name(line) for line in text.splitlines() if _LINE.search(line) and not line.endswith(_NOT_READ))


def with_ranges(text: str, ranges: Mapping[str, ValueRange]) -> str:
    """The same table with other ranges; comments and what was seen stay as they are."""
    lines = []
    for line in text.splitlines():
        if _LINE.search(line):
            reach = ranges[_name(line)]
            line = _LINE.sub(rf"low: {reach.low!r}, high: {reach.high!r}, \g<rest>", line)
        lines.append(line)
    return "".join(line + "\n" for line in lines)


_LINE = re.compile(r"(?<!_)low: \S+, high: \S+, (?P<rest>observed_low: \S+, observed_high: \S+\}(  # not read)?)$")


def _name(line: str) -> str:
    return str(yaml.safe_load(line.strip().removeprefix("- "))["name"])

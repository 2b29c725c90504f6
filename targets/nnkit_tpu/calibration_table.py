"""The calibration table of the TPU compiler: text, `name threshold min max` with seven decimals, `#` comments.

Symmetric formats use plus and minus the threshold, which may lie inside min..max (it clips then); asymmetric ones use
min and max. A line that begins with `#` is a comment, or opens a section of its own (`#int4_th`, `#asym_op`): what
follows is not read, since it repeats values for other widths.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from nnkit.calibrate.stats import ValueRange
from nnkit.errors import ModelError, RecipeError
from nnkit.quantize.tables import TableFormat
from nnkit.reading import read_text

_SECTIONS = ("#int4_th", "#asym_op")
_SMALLEST = 1e-7  # the format has seven decimals; a threshold of zero would divide by zero in the compiler


def table_format() -> TableFormat:
    """The table as `nnkit table convert` reads and writes it."""
    return TableFormat("the TPU compiler's calibration table", _looks_like_one, read_table, format_table)


def _looks_like_one(text: str) -> bool:
    """Whether the first line that is no comment has a name and three numbers."""
    rows = [line.split() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return bool(rows) and len(rows[0]) == 4


def format_table(ranges: Mapping[str, ValueRange], *, comments: tuple[str, ...] = ()) -> str:
    """The text. A value's threshold is the largest magnitude of its chosen range; min and max are its ends.

    Raises ModelError for a name that the format cannot hold.
    """
    lines = [f"# {comment}" for comment in comments]
    lines.append("# name threshold min max")
    for name, value_range in ranges.items():
        if not name or name.startswith("#") or any(c.isspace() for c in name):
            raise ModelError(
                "the TPU compiler's calibration table cannot hold this name: it is empty, has a space, or begins "
                "with '#'",
                where=repr(name),
                remedy="rename the value in the model",
            )
        lines.append(table_line(name, value_range, _SMALLEST))
    return "\n".join(lines) + "\n"


def table_line(name: str, value_range: ValueRange, smallest: float) -> str:
    """A value's line; its threshold is the largest magnitude of its range, but not below `smallest`."""
    return f"{name} {max(value_range.max_abs, smallest):.7f} {value_range.low:.7f} {value_range.high:.7f}"


def read_table(path: Path) -> dict[str, ValueRange]:
    """Ranges by value name: min and max cut to plus and minus the threshold; the observed ones are min and max.

    Raises:
        UserFileError: the file cannot be read.
        RecipeError: something in it is wrong; the place is `file:line`.
    """
    remedy = "give the table that the TPU compiler's calibration wrote"
    lines = read_text(path, what="the calibration table", remedy=remedy).splitlines()
    ranges: dict[str, ValueRange] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text.startswith(_SECTIONS):
            break
        if not text or text.startswith("#"):
            continue
        name, value_range = _entry(text, f"{path}:{number}")
        if name in ranges:
            raise RecipeError(f"'{name}' is there a second time", where=f"{path}:{number}", remedy="keep one line")
        ranges[name] = value_range
    if not ranges:
        raise RecipeError("the table has no lines", where=str(path), remedy="a line is: name threshold min max")
    return ranges


def _entry(text: str, where: str) -> tuple[str, ValueRange]:
    parts = text.split()
    if len(parts) != 4:
        raise RecipeError(f"{len(parts)} columns; a line has 4", where=where, remedy="write: name threshold min max")
    try:
        threshold, low, high = (float(part) for part in parts[1:])
    except ValueError:
        raise RecipeError("not a number", where=where, remedy="write: name threshold min max") from None
    if not all(math.isfinite(number) for number in (threshold, low, high)):
        raise RecipeError("a number is not finite", where=where, remedy="a range ends at finite numbers")
    if threshold < 0.0 or low > high:
        raise RecipeError(
            "the threshold is negative" if threshold < 0.0 else "min is above max", where=where, remedy="correct it"
        )
    return parts[0], ValueRange(max(low, -threshold), max(max(low, -threshold), min(high, threshold)), low, high)

"""The compiler's calibration table and qtable, complete and valid before the compiler sees them.

A table that lacks a name, or has a short line, aborts the compiler; so does an unknown mode, while unknown names in a
qtable are ignored without a word. All of that is refused here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from nnkit.calibrate.stats import ValueRange
from nnkit.errors import ModelError, UsageError
from nnkit_tpu.calibration_table import table_line
from nnkit_tpu.program import TpuGraph
from nnkit_tpu.top_mlir import locations

MODES = ("INT8", "F16", "BF16", "F32")
_SMALLEST_THRESHOLD = 1e-5  # below it the compiler replaces scales by a rule of its own


def calibration_table(graph: TpuGraph, ranges: Mapping[str, ValueRange], *, exact: bool = False) -> str:
    """`name threshold min max` for every input and every op's output, with seven decimals; exact: with all of them.

    ranges: by tensor name, in real units. Raises ModelError for tensors without a finite range.
    """
    names = locations(graph)
    missing = [v for v in names if v not in ranges or not math.isfinite(ranges[v].max_abs)]
    if missing:
        raise without_ranges(missing)
    lines = ["# op_name    threshold    min    max"]
    line = _exact_line if exact else table_line
    lines += [line(name, ranges[value], _SMALLEST_THRESHOLD) for value, name in names.items()]
    return "\n".join(lines) + "\n"


def without_ranges(values: Sequence[str]) -> ModelError:
    """What to say of values that calibration gives no finite range."""
    return ModelError(
        f"{len(values)} values have no finite range: {', '.join(values)}",
        remedy="calibrate the model that is quantised, as the rewrites left it",
    )


def _exact_line(name: str, value_range: ValueRange, smallest: float) -> str:
    """A value's line with numbers that read back as they are; the compiler's reader knows no plus sign."""
    numbers = (max(value_range.max_abs, smallest), value_range.low, value_range.high)
    return f"{name} {' '.join(f'{number:.17e}'.replace('e+', 'e') for number in numbers)}"


def qtable(graph: TpuGraph, modes: Mapping[str, str]) -> str:
    """`name MODE` for ops in a precision of their own; modes: by output value.

    Raises UsageError for a value that no op computes, or a mode that does not exist.
    """
    names = locations(graph)
    outputs: Sequence[str] = [op.output for op in graph.ops]
    for value, mode in modes.items():
        if value not in outputs:
            raise UsageError("no op computes this value", where=value, remedy="name the output of an op after fusion")
        if mode.upper() not in MODES:
            raise UsageError(f"unknown mode {mode!r}", where=value, remedy=f"one of {', '.join(MODES)}")
    lines = [f"{names[value]} {mode.upper()}" for value, mode in modes.items()]
    return "\n".join(["# op_name   quantize_mode", *lines]) + "\n"

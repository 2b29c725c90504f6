"""A self-test in C: the network on numbers that the test makes itself, some of its outputs embedded as the truth."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.c.sources import c_environment, tidy_source
from nnkit.c.text import float32_literal
from nnkit.calibrate.stats import CalibrationStats
from nnkit.generated import write_sources
from nnkit.program import Float, Program, Tensor
from nnkit.simulate import simulate
from nnkit_ansi_c.device import FOLDER
from nnkit_ansi_c.runner import described, port_bytes, values_of

_MOST_VALUES = 64  # of an output that are embedded, evenly spread
_TOLERANCE = 1e-3  # of an output's largest magnitude, for float32: its sums may run in another order
_PER_LINE = 8


def emit_selftest(program: Program, statistics: CalibrationStats, artifact: Path) -> None:
    """`device/<name>_selftest.h` and `.c`; numbers fill the range that calibration saw, or that of the integers."""
    record = described(artifact)
    inputs = [
        port | {"bounds": _bounds(program.tensors[port["name"]], statistics), "seed": index + 1}
        for index, port in enumerate(record["inputs"])
    ]
    for port in inputs:
        port["literals"] = [float32_literal(float(bound)) for bound in port["bounds"]]
    given: dict[str, NDArray[Any]] = {}
    for port in inputs:
        stored = numbers(port["seed"], port["values"], port["bounds"], program.tensors[port["name"]])
        given |= values_of(stored.tobytes(), [port], program)
    expected = simulate(program, given)
    outputs = [_expected(port, program, expected[port["name"]]) for port in record["outputs"]]
    prefix = record["name"]
    is_float = isinstance(program.tensors[program.inputs[0]].format, Float)
    values = {"prefix": prefix, "macro": prefix.upper(), "inputs": inputs, "outputs": outputs, "is_float": is_float}
    environment = c_environment("nnkit_ansi_c", "templates")
    files = {f"{prefix}_selftest.{end}": tidy_source(environment, f"selftest.{end}.j2", values) for end in ("h", "c")}
    write_sources(artifact / FOLDER, files)


def numbers(seed: int, count: int, bounds: tuple[str, str], tensor: Tensor) -> NDArray[Any]:
    """What the C makes: a linear congruential generator of 32 bits (Numerical Recipes), its upper 24 bits scaled."""
    state, states = seed, np.empty(count, np.uint64)
    for index in range(count):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        states[index] = state >> 8
    if isinstance(tensor.format, Float):
        low, span = (np.float32(bound) for bound in bounds)
        return np.asarray(states.astype(np.float32) / np.float32(1 << 24) * span + low, np.float32)
    low_integer, levels = int(bounds[0]), int(bounds[1])
    return (states.astype(np.int64) % levels + low_integer).astype(tensor.format.dtype)


def _bounds(tensor: Tensor, statistics: CalibrationStats) -> tuple[str, str]:
    """The least number and the width of the range, as numbers in text; of integers how many there are."""
    if not isinstance(tensor.format, Float):
        return str(tensor.low), str(tensor.high - tensor.low + 1)
    seen = statistics.ranges.get(tensor.name)
    low, high = (seen.low, seen.high) if seen is not None else (-1.0, 1.0)
    return str(np.float32(low)), str(np.float32(np.float32(high) - np.float32(low)))


def _expected(port: Mapping[str, Any], program: Program, values: NDArray[Any]) -> dict[str, Any]:
    """The output's entry: places `step` apart, and what lies there."""
    form = program.tensors[port["name"]].format
    lying = np.frombuffer(port_bytes(program, port["name"], values), form.dtype)
    step = -(-lying.size // _MOST_VALUES)
    chosen = lying[::step]
    is_float = isinstance(form, Float)
    texts = [float32_literal(value) if is_float else str(value) for value in chosen.tolist()]
    tolerance = _TOLERANCE * float(np.abs(lying).max(initial=0.0)) if is_float else 0.0
    rows = [", ".join(texts[i : i + _PER_LINE]) for i in range(0, len(texts), _PER_LINE)]
    return dict(port) | {"step": step, "rows": rows, "count": len(texts), "tolerance": float32_literal(tolerance)}

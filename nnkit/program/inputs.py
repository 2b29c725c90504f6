"""Inputs as a Program stores them: real ones and, for the artifact, ones that stress every corner."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.program.formats import Float
from nnkit.program.program import Program
from nnkit.samples import Sample


def quantized_inputs(program: Program, sample: Sample) -> dict[str, NDArray[Any]]:
    """The sample as the program stores it: quantised, and integers clipped to each input's range."""
    stored: dict[str, NDArray[Any]] = {}
    for name in program.inputs:
        tensor = program.tensors[name]
        values = tensor.format.quantize(np.asarray(sample.inputs[name], dtype=np.float64))
        if not isinstance(tensor.format, Float):
            values = np.clip(values, tensor.low, tensor.high)
        stored[name] = values.reshape(tensor.shape)
    return stored


def stress_inputs(program: Program, count: int, seed: int = 0) -> list[dict[str, NDArray[Any]]]:
    """Inputs over the whole integer range of each input tensor: uniform noise, then both extremes mixed.

    An empty list where an input is float: it has no range.
    """
    if any(isinstance(program.tensors[name].format, Float) for name in program.inputs):
        return []
    generator = np.random.default_rng(seed)
    results: list[dict[str, NDArray[Any]]] = []
    for index in range(count):
        chosen: dict[str, NDArray[Any]] = {}
        for name in program.inputs:
            tensor = program.tensors[name]
            if index % 2:
                chosen[name] = np.where(generator.random(tensor.shape) < 0.5, tensor.low, tensor.high)
            else:
                chosen[name] = generator.integers(tensor.low, tensor.high, size=tensor.shape, endpoint=True)
        results.append({name: value.astype(np.int64) for name, value in chosen.items()})
    return results

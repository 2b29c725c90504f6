"""Inputs and expected outputs as the board stores them, for trying and timing a release there.

`testcase/<case>/in_<input>.bin`: 8-bit pixels, planar [C, H, W], or 32-bit S20.12 for a vector. `out_<tensor>.bin`:
every output of every segment as the simulation has it: S20.12 of the NNIE (int32), float32 of the CPU. Little endian.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.program import Program
from nnkit.program.inputs import quantized_inputs
from nnkit.samples import Sample
from nnkit.simulate import simulate
from nnkit_nnie.mapper.caffe_pair import safe_name
from nnkit_nnie.mapper.calibration_images import pixels
from nnkit_nnie.mapper.input_settings import InputSettings
from nnkit_nnie.network import Network

_VECTOR_LIMIT = 4.0


def random_sample(settings: Sequence[InputSettings], seed: int = 0) -> Sample:
    """Uniform pixels (or numbers in -4..4), as the network gets them after the chip's normalisation."""
    random = np.random.default_rng(seed)
    inputs: dict[str, NDArray[np.float32]] = {}
    for each in settings:
        if each.is_image:
            raw = random.integers(0, 256, each.shape).astype(np.float64)
            mean = np.asarray(each.mean or (0.0,), np.float64).reshape(1, -1, 1, 1)
            inputs[each.name] = ((raw - mean) * each.data_scale).astype(np.float32)
        else:
            inputs[each.name] = random.uniform(-_VECTOR_LIMIT, _VECTOR_LIMIT, each.shape).astype(np.float32)
    return Sample("random", inputs)


def write_testcase(
    folder: Path, network: Network, program: Program, settings: Sequence[InputSettings], sample: Sample
) -> dict[str, NDArray[Any]]:
    """Write one case; returns every tensor of the simulation."""
    folder.mkdir(parents=True)
    stored = quantized_inputs(program, sample)
    for each in settings:
        values = pixels(each, sample.inputs[each.name]) if each.is_image else stored[each.name]
        dtype = "u1" if each.is_image else "<i4"
        (folder / f"in_{safe_name(each.name)}.bin").write_bytes(np.asarray(values).astype(dtype).tobytes())
    values_by_name = simulate(program, stored)
    for segment in network.segments:
        for name in segment.outputs:
            tensor = program.tensors[name]
            data = values_by_name[name].astype(tensor.format.dtype.newbyteorder("<")).tobytes()
            (folder / f"out_{safe_name(name)}.bin").write_bytes(data)
    return values_by_name

"""A build against the dumps that the vendor's mapper left when it compiled the build's artifact.

The mapper dumps the last calibration image only. The artifact keeps that image's inputs as the test case
`calibration_last`, so that the simulation sees the same one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.program import Program
from nnkit.program.inputs import quantized_inputs
from nnkit.reading import read_array
from nnkit.samples import Sample
from nnkit.simulate import simulate
from nnkit_nnie.emit import LAST_CALIBRATION, last_calibration_file, read_build_file, written_layers
from nnkit_nnie.gfpq.group_weights import dequantize_groups
from nnkit_nnie.gfpq.ops import NnieLayer, NnieOp, NnieWeighted, layer_of
from nnkit_nnie.mapper.quant_dumps import LayerComparison, Sort, compare_dumps, list_dumps


def compare_with_mapper(
    artifact: Path, program: Program, dumps: Path
) -> tuple[tuple[LayerComparison, ...], tuple[str, ...]]:
    """Outputs, inputs and weights of every layer that the mapper dumped, in the network's order; and problems.

    Raises UserFileError where the artifact or the dumps cannot be read.
    """
    return compare_dumps(list_dumps(dumps), our_values(artifact, program))


def our_values(artifact: Path, program: Program) -> dict[tuple[str, Sort, int], NDArray[Any]]:
    """Real values by (layer as written, sort, number), as `mapper_quant` has them.

    A layer that was written as several is known by the first's name; its result also by the last's.
    """
    layers = written_layers(read_build_file(artifact))
    tensors = _tensors(artifact, program, read_build_file(artifact))
    ours: dict[tuple[str, Sort, int], NDArray[Any]] = {}
    tops: dict[str, int] = {}
    for op in program.ops:
        if not isinstance(op, NnieWeighted | NnieLayer):
            continue
        names = layers.get(op.layer) or [op.layer]
        first, last = names[0], names[-1]
        number = tops.get(op.layer, 0)
        tops[op.layer] = number + 1
        if number == 0:
            ours |= {(first, "input", k): value for k, value in enumerate(_read_values(op, program, tensors))}
        if isinstance(op, NnieWeighted):
            ours[first, "weight", 0] = dequantize_groups(op.weight, op.weight_scales)
        result = program.tensors[op.output].format.dequantize(tensors[op.output])
        for name in dict.fromkeys((first, last)):
            ours[name, "output", number] = result
    return ours


def _read_values(op: NnieOp, program: Program, tensors: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
    """The inputs of a layer as it reads them."""
    real = [program.tensors[name].format.dequantize(tensors[name]) for name in op.inputs]
    return [value if form is None else form.through(value) for form, value in zip(op.reads, real, strict=True)]


def _tensors(artifact: Path, program: Program, build: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Every network's tensors from its own last calibration image, on which alone the mapper saw it."""
    tensors: dict[str, NDArray[Any]] = {}
    for network in build["networks"]:
        ops = tuple(op for op in program.ops if layer_of(op) in network["layers"])
        inputs = tuple(name for name in network["inputs"] if name in program.tensors)
        part = replace(program, ops=ops, inputs=inputs)
        tensors |= simulate(part, quantized_inputs(part, _last_sample(artifact, part)))
    return tensors


def _last_sample(artifact: Path, program: Program) -> Sample:
    folder = artifact / "testcase"
    remedy = "the artifact keeps its last calibration image there: build again with calibration images"
    inputs = {
        name: read_array(folder / last_calibration_file(name), what="the image", remedy=remedy).astype(np.float32)
        for name in program.inputs
    }
    return Sample(LAST_CALIBRATION, inputs)

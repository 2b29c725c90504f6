"""The arithmetic of a simulation that knows the NNIE's number format and not its mapper: a scale for each layer.

Weights of a layer of groups share one GFPQ scale, products are summed in float64, biases are not rounded, and results
are rounded half up to S20.12. The chip has none of this; the benchmarks show what the difference is.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nnkit.caffe.weights import read_caffemodel
from nnkit.program import Arrays, Program, Tensors, Watch
from nnkit_nnie.emit import read_build_file
from nnkit_nnie.gfpq.float64_layers import activate
from nnkit_nnie.gfpq.number_format import Gfpq
from nnkit_nnie.gfpq.ops import STORED, NnieWeighted


@dataclass(frozen=True, eq=False, kw_only=True)
class FloatSums(NnieWeighted):
    """A layer with weights, of one scale, whose sums and bias are float64."""

    kind: ClassVar[str] = "weighted in float"

    def compute(self, inputs: Arrays, tensors: Tensors, watch: Watch | None = None) -> NDArray[Any]:
        """The layer's stored output."""
        (real,) = self._real(inputs)
        products = self._products(self.read_as.in_units(self.read_as.quantize(real)))
        unit = 2.0 ** ((self.weight_scales[0].z + self.read_as.z) / self.read_as.steps_per_octave)
        result = products * unit + self.bias.reshape(1, -1, *[1] * (products.ndim - 2))
        for activation in self.activations:
            result = activate(result, activation)
        return STORED.quantize(result).reshape(tensors[self.output].shape)


def with_layer_scales(build: Path, program: Program) -> Program:
    """A build's program in that arithmetic; the weights are those of the caffemodel that it emitted."""
    weights = _weights(build / "artifact")
    ops = (one_scale(op, weights[op.layer]) if isinstance(op, NnieWeighted) else op for op in program.ops)
    return replace(program, ops=tuple(ops))


def one_scale(op: NnieWeighted, weight: NDArray[np.float64]) -> FloatSums:
    """A layer in that arithmetic. weight: before quantisation."""
    scale = Gfpq.for_magnitude(op.weight_scales[0].bits, float(np.abs(weight).max()))
    given = {field.name: getattr(op, field.name) for field in fields(op)}
    codes = scale.quantize(weight.reshape(op.weight.shape))
    return FloatSums(**{**given, "weight": codes, "weight_scales": (scale,) * op.groups})


def _weights(artifact: Path) -> dict[str, NDArray[np.float64]]:
    """Weights of the emitted networks' layers, by the names that the program has for them."""
    weights = {}
    for network in read_build_file(artifact)["networks"]:
        file = artifact / network["folder"] / f"{network['stem']}.caffemodel"
        stored = read_caffemodel(file.read_bytes(), str(file))
        for layer, written in network["layers"].items():
            blobs = next((stored[name] for name in written if name in stored), None)
            if blobs is not None and blobs.arrays:
                weights[layer] = blobs.arrays[0].astype(np.float64)
    return weights

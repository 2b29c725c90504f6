"""The arithmetic of an NNIE program: a functional simulation of what the chip computes.

* Every tensor that the NNIE computes is stored as S20.12: 32 bits, 12 of them fraction, rounded half up, saturated.
* A layer that computes reads its inputs through GFPQ: 8 bits (1.3.4), or 16 (1.5.7) for `_hp` layers and in compile
  mode 1. The scale comes from the largest magnitude that calibration saw of the tensor. Layers that only place values
  (Concat, Slice, Reshape, Permute, Upsample ...) pass them on as they are.
* Weights are in GFPQ of the same number of bits, with a scale for each group of a layer (a depthwise layer: for each
  channel). Products are summed in float64.
* The bias is added as it is. The mapper keeps it as "24.0", an integer in a unit that is not published; 24 bits in
  the unit of a layer's accumulator are finer than the S20.12 of its result, so the rounding of the bias is left out.
* An activation in place applies before the result is stored.
* Layers without weights are computed in float32 (by ONNX Runtime, or nnkit's own definition of a layer that ONNX
  lacks), from inputs through GFPQ: their sums are short, and float32 is finer than S20.12 at the magnitudes they
  have. Parameters of Scale, BatchNorm, PReLU and Normalize stay float.
* The warp between STN and NET gives what NET's image is stored as: pixels, rounded half up.
* CPU layers are float32 in and out; what they hand to the NNIE is rounded to S20.12.

The chip's own accumulator is not published, so that the simulation is not bit exact; the dumps of the vendor's
mapper, where it is at hand, are compared with it layer by layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.subgraph import run_bytes
from nnkit.program import Fixed, Float, OpBase, Window
from nnkit_nnie.float64_layers import (
    Array,
    InPlaceActivation,
    activate,
    convolution,
    transposed_convolution,
)
from nnkit_nnie.gfpq import Gfpq
from nnkit_nnie.group_weights import dequantize_groups, scales_in_words

if TYPE_CHECKING:
    from nnkit.program import Arrays, Tensors, Watch

STORED = Fixed(32, 12)
"""S20.12, the format of everything that the NNIE computes."""


@dataclass(frozen=True, eq=False, kw_only=True)
class NnieOp(OpBase):
    """What the ops of an NNIE program share.

    layer: the layer of the prototxt; an op computes one of its tops. stored: formats of the inputs in memory.
    shapes: of the inputs, with the batch axis. output_shape: likewise. from_cpu: which inputs a CPU segment
    makes, to reach the NNIE as S20.12; empty where there are none.
    """

    layer: str
    caffe_type: str
    stored: tuple[Fixed | Float, ...]
    shapes: tuple[tuple[int, ...], ...]
    output_shape: tuple[int, ...]
    from_cpu: tuple[bool, ...] = ()

    @property
    def reads(self) -> tuple[Gfpq | None, ...]:
        """The formats in which it reads its inputs; None where it reads one as it is stored. Empty on the CPU."""
        return ()

    def _real(self, inputs: Sequence[NDArray[Any]]) -> list[Array]:
        """The inputs in real units, float64, with the batch axis."""
        real = [
            form.dequantize(values).reshape(shape)
            for form, values, shape in zip(self.stored, inputs, self.shapes, strict=True)
        ]
        for position, rounded in enumerate(self.from_cpu):
            if rounded:
                real[position] = STORED.dequantize(STORED.quantize(real[position]))
        return real


@dataclass(frozen=True, eq=False, kw_only=True)
class NnieWeighted(NnieOp):
    """Convolution, Deconvolution or InnerProduct: GFPQ inputs and weights, float64 sums, activations, S20.12.

    weight: codes; [O, I / groups, kh, kw], for a Deconvolution [I, O / groups, kh, kw], for an InnerProduct [O, I].
    weight_scales: the format of each group. bias: float64 [O].
    """

    kind: ClassVar[str] = "weighted"
    read_as: Gfpq
    weight: NDArray[Any]
    weight_scales: tuple[Gfpq, ...]
    bias: NDArray[np.float64]
    window: Window
    groups: int = 1
    activations: tuple[InPlaceActivation, ...] = ()

    @property
    def reads(self) -> tuple[Gfpq, ...]:
        """The format of its one input."""
        return (self.read_as,)

    def compute(self, inputs: Arrays, tensors: Tensors, watch: Watch | None = None) -> NDArray[Any]:
        """The layer's stored output."""
        (x,) = (self.read_as.through(value) for value in self._real(inputs))
        weight = dequantize_groups(self.weight, self.weight_scales)
        if self.caffe_type == "InnerProduct":
            result = x.reshape(x.shape[0], -1) @ weight.T + self.bias
        elif self.caffe_type == "Deconvolution":
            size = (self.output_shape[2], self.output_shape[3])
            result = transposed_convolution(x, weight, self.bias, self.window, self.groups, size)
        else:
            result = convolution(x, weight, self.bias, self.window, self.groups)
        for activation in self.activations:
            result = activate(result, activation)
        return STORED.quantize(result).reshape(tensors[self.output].shape)

    def multiply_accumulates(self, tensors: Tensors) -> int:
        """One per weight and position; a fully connected layer has one position."""
        if self.caffe_type == "InnerProduct":
            return int(self.weight.size)
        side = self.shapes[0] if self.caffe_type == "Deconvolution" else self.output_shape
        return int(self.weight.size) * side[2] * side[3]

    def weight_formats(self) -> dict[str, str]:
        """Formats of input, weight and bias, as reports name them."""
        return {"input": str(self.read_as), "weight": scales_in_words(self.weight_scales), "bias": "24.0"}


@dataclass(frozen=True, eq=False, kw_only=True)
class NnieLayer(NnieOp):
    """Any other layer of the NNIE: GFPQ inputs (`None`: read as they are stored), float32, S20.12.

    graph: the layer as ONNX. names: of its inputs there. fetch: the value computed.
    """

    kind: ClassVar[str] = "layer"
    read_as: tuple[Gfpq | None, ...]
    graph: bytes
    names: tuple[str, ...]
    fetch: str

    @property
    def reads(self) -> tuple[Gfpq | None, ...]:
        """The formats of its inputs."""
        return self.read_as

    def compute(self, inputs: Arrays, tensors: Tensors, watch: Watch | None = None) -> NDArray[Any]:
        """The layer's stored output."""
        real = [
            value if form is None else form.through(value)
            for form, value in zip(self.read_as, self._real(inputs), strict=True)
        ]
        values = run_bytes(self.graph, dict(zip(self.names, real, strict=True)), {self.fetch: self.output_shape})
        return STORED.quantize(values[self.fetch]).reshape(tensors[self.output].shape)

    def weight_formats(self) -> dict[str, str]:
        """Formats of the inputs that go through GFPQ, as reports name them."""
        return {f"input {i}": str(form) for i, form in enumerate(self.read_as) if form is not None}


@dataclass(frozen=True, eq=False, kw_only=True)
class CpuLayer(NnieOp):
    """A layer of a CPU segment: float32 in and out. Fields as of `NnieLayer`.

    magnitude: the largest of its output that calibration saw, which comparisons are relative to.
    """

    kind: ClassVar[str] = "cpu"
    graph: bytes
    names: tuple[str, ...]
    fetch: str
    magnitude: float = 0.0

    def compute(self, inputs: Arrays, tensors: Tensors, watch: Watch | None = None) -> NDArray[Any]:
        """The layer's output, float32; pixels where it is the image of the next network."""
        real = dict(zip(self.names, self._real(inputs), strict=True))
        values = run_bytes(self.graph, real, {self.fetch: self.output_shape})
        output = tensors[self.output]
        return output.format.quantize(np.asarray(values[self.fetch], np.float32)).reshape(output.shape)


def layer_of(op: OpBase) -> str:
    """Name of the layer that an op computes a top of."""
    return op.layer if isinstance(op, NnieOp) else op.name


PROGRAM_CLASSES: tuple[type, ...] = (NnieWeighted, NnieLayer, CpuLayer, InPlaceActivation, Gfpq)

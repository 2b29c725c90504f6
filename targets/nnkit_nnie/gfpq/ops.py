"""The arithmetic of an NNIE program: a functional simulation of what the chip computes.

* Every tensor that the NNIE computes is stored as S20.12: 32 bits, 12 of them fraction, rounded half up, saturated.
* A layer that computes reads its inputs through GFPQ: 8 bits (1.3.4), or 16 (1.5.7) for `_hp` layers and in compile
  mode 1. The scale comes from the largest magnitude that calibration saw of the tensor. Layers that only place values
  (Concat, Slice, Reshape, Permute, Upsample ...) pass them on as they are.
* Weights are in GFPQ of the same number of bits, with a scale for each group of a layer (a depthwise layer: for each
  channel).
* A layer with weights has an accumulator in units of its two scales, an integer bias and an integer multiplier
  (`integer_numbers`): result = ((rint(sum of products) + bias) * multiplier) >> shift in S20.12, rounded down and
  saturated.
* An activation in place applies to that result, and rounds half up. Sigmoid and TanH are tables, in place and as
  layers (`activation_tables`).
* Layers without weights are computed in float32 (by ONNX Runtime, or nnkit's own definition of a layer that ONNX
  lacks), from inputs through GFPQ: their sums are short, and float32 is finer than S20.12 at the magnitudes they
  have. Parameters of Scale, BatchNorm, PReLU and Normalize stay float.
* The warp between STN and NET gives what NET's image is stored as: pixels, rounded half up.
* CPU layers are float32 in and out; what they hand to the NNIE is rounded to S20.12.

Biases and multipliers are those of files that the vendor's mapper made. Not known, so that the simulation is not bit
exact: to how many bits the chip rounds a product (here none is rounded, and their sum once, to the unit of the bias);
how many bits the accumulator has (here as many as it takes; where a bias does not fit the 32 bits that files have for
it, the result is that of a multiplier that is not rounded, and the Program's notes say so); what the mapper makes of
channels whose weights are nearly zero (here as of others). The dumps of the vendor's mapper, where it is at hand, are
compared with it layer by layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.subgraph import run_bytes
from nnkit.program import Fixed, Float, OpBase, Window
from nnkit_nnie.gfpq.activation_tables import TABLES
from nnkit_nnie.gfpq.float64_layers import (
    Array,
    InPlaceActivation,
    activate,
    convolution,
    transposed_convolution,
)
from nnkit_nnie.gfpq.group_weights import scales_in_words
from nnkit_nnie.gfpq.integer_numbers import LARGEST_MULTIPLIER, integer_biases, multiplier, shift, to_s20_12
from nnkit_nnie.gfpq.number_format import Gfpq

if TYPE_CHECKING:
    from nnkit.program import Arrays, Tensors, Watch

STORED = Fixed(32, 12)
"""S20.12, the format of everything that the NNIE computes."""

_INT32_MAX, _UINT32_MAX = (1 << 31) - 1, (1 << 32) - 1


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
    """Convolution, Deconvolution or InnerProduct: GFPQ inputs and weights, integer sums, activations, S20.12.

    weight: codes; [O, I / groups, kh, kw], for a Deconvolution [I, O / groups, kh, kw], for an InnerProduct [O, I].
    weight_scales: the format of each group. bias: float64 [O], of which the integer ones are made.
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
        (real,) = self._real(inputs)
        sums = np.rint(self._products(self.read_as.in_units(self.read_as.quantize(real)))).astype(np.int64)
        channels = (1, -1, *[1] * (sums.ndim - 2))
        sums += self.integer_biases.reshape(channels)
        result = to_s20_12(sums, self.multipliers.reshape(channels), self.shifts.reshape(channels))
        wide = self._wide_biases
        if wide.any():
            scales = np.repeat(np.asarray(self._accumulator_scales), wide.size // self.groups)
            units = np.exp2(STORED.frac - scales / self.read_as.steps_per_octave).reshape(channels)
            exact = np.clip(np.floor(sums * units), STORED.qmin, STORED.qmax).astype(np.int64)
            result = np.where(wide.reshape(channels), exact, result)
        for activation in self.activations:
            result = STORED.quantize(activate(STORED.dequantize(result), activation))
        return result.reshape(tensors[self.output].shape)

    def _products(self, x: Array) -> Array:
        """Sums of products of inputs and weights, both in units of their scales."""
        weight = self.weight_scales[0].in_units(self.weight)
        if self.caffe_type == "InnerProduct":
            return np.asarray(x.reshape(x.shape[0], -1) @ weight.T)
        if self.caffe_type == "Deconvolution":
            size = (self.output_shape[2], self.output_shape[3])
            return transposed_convolution(x, weight, None, self.window, self.groups, size)
        return convolution(x, weight, None, self.window, self.groups)

    @property
    def integer_biases(self) -> NDArray[np.int64]:
        """[O], in the unit of each output's accumulator."""
        parts = np.split(self.bias, self.groups)
        return np.concatenate(
            [
                integer_biases(part, s, self.read_as.steps_per_octave)
                for part, s in zip(parts, self._accumulator_scales, strict=True)
            ]
        )

    @property
    def multipliers(self) -> NDArray[np.int64]:
        """[O], what turns each output's accumulator into S20.12."""
        steps = self.read_as.steps_per_octave
        each = [min(multiplier(s, steps), LARGEST_MULTIPLIER) for s in self._accumulator_scales]
        return np.repeat(np.asarray(each, np.int64), self.bias.size // self.groups)

    @property
    def shifts(self) -> NDArray[np.int64]:
        """[O], by how many bits the product with the multiplier is shifted."""
        each = [shift(s, self.read_as.steps_per_octave) for s in self._accumulator_scales]
        return np.repeat(np.asarray(each, np.int64), self.bias.size // self.groups)

    @property
    def beyond_32_bits(self) -> tuple[str, ...]:
        """Which of its integers do not fit the 32 bits that compiled networks have for them."""
        kinds = {"bias": self._wide_biases.any(), "multiplier": (self.multipliers > _UINT32_MAX).any()}
        return tuple(kind for kind, beyond in kinds.items() if beyond)

    @property
    def _wide_biases(self) -> NDArray[np.bool_]:
        """[O], where a bias does not fit 32 bits: behind inputs or weights that are nearly zero."""
        biases = self.integer_biases
        return np.asarray((biases > _INT32_MAX) | (biases < -_INT32_MAX - 1))

    @property
    def _accumulator_scales(self) -> list[int]:
        """s of each group."""
        return [-(scale.z + self.read_as.z) for scale in self.weight_scales]

    def multiply_accumulates(self, tensors: Tensors) -> int:
        """One per weight and position; a fully connected layer has one position."""
        if self.caffe_type == "InnerProduct":
            return int(self.weight.size)
        side = self.shapes[0] if self.caffe_type == "Deconvolution" else self.output_shape
        return int(self.weight.size) * side[2] * side[3]

    def weight_bytes(self) -> int:
        """Codes of the group's bits, biases of 32."""
        return (self.weight.size * self.weight_scales[0].bits + self.bias.size * 32) // 8

    def weight_formats(self) -> dict[str, str]:
        """Formats of input, weight and bias, as reports name them."""
        return {"input": str(self.read_as), "weight": scales_in_words(self.weight_scales), "bias": "s32.0"}


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
        return STORED.quantize(self._result(real)).reshape(tensors[self.output].shape)

    def _result(self, real: Sequence[Array]) -> NDArray[Any]:
        if self.caffe_type in TABLES:
            return TABLES[self.caffe_type](real[0])
        values = run_bytes(self.graph, dict(zip(self.names, real, strict=True)), {self.fetch: self.output_shape})
        return values[self.fetch]

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

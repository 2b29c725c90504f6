"""The ops of a Program, each with its exact integer semantics.

Conventions (shared by the simulator and every generated kernel):

* Tensors have no batch axis: [C, H, W] or [F]. Weights are OIHW.
* NORM(x, n) = (x + 2^(n-1)) >> n for n > 0, x for n = 0: arithmetic shift, half toward +infinity.
* Every op ends in the same *output stage*: v = NORM(acc, shift); v = clamp(v, storage range of the output);
  if leaky (signed storage only): v < 0 -> NORM(v * slope, slope_shift), clamp to storage;
  then clamp(v, clip_min, clip_max).
* A fused pool sees the values after the output stage.
* An `int32` accumulator wraps modulo 2^32 (defined behaviour, in C through unsigned arithmetic); an op whose
  `proof` is `proven` never does, and the simulator counts wraps for the others. The rounding constant
  2^(n-1) is added in the accumulator's width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import InternalError

if TYPE_CHECKING:
    from nnkit.program.program import Tensor

Accumulate: TypeAlias = Literal["wide", "running"]
Accumulator: TypeAlias = Literal["int32", "int64", "running16", "float32", "float64"]
Proof: TypeAlias = Literal["proven", "pinned_unproven", "not_applicable"]
Placement: TypeAlias = Literal["npu", "cpu"]
PoolKind: TypeAlias = Literal["max", "average"]


@dataclass(frozen=True)
class Window:
    """A sliding window over H and W: kernel, stride, dilation and the padding that is really read.

    `pad_*` are effective: where ceil_mode or a stride leaves rows or columns unread they do not count.
    """

    kernel_h: int
    kernel_w: int
    stride_h: int = 1
    stride_w: int = 1
    dilation_h: int = 1
    dilation_w: int = 1
    pad_top: int = 0
    pad_left: int = 0
    pad_bottom: int = 0
    pad_right: int = 0

    def output_hw(self, height: int, width: int) -> tuple[int, int]:
        """(H, W) of the output for an input of (height, width)."""
        span_h = (self.kernel_h - 1) * self.dilation_h + 1
        span_w = (self.kernel_w - 1) * self.dilation_w + 1
        out_h = (height + self.pad_top + self.pad_bottom - span_h) // self.stride_h + 1
        out_w = (width + self.pad_left + self.pad_right - span_w) // self.stride_w + 1
        return out_h, out_w

    @property
    def has_padding(self) -> bool:
        """Whether any padded element is read."""
        return any((self.pad_top, self.pad_left, self.pad_bottom, self.pad_right))


@dataclass(frozen=True, eq=False)
class Leaky:
    """Negative-side slopes: v < 0 -> NORM(v * slope, shift). `slopes` is int16 [1] or [C]."""

    slopes: NDArray[np.int16]
    shift: int


@dataclass(frozen=True, eq=False)
class OutputStage:
    """What happens to an accumulator before it is stored; see the module's docstring."""

    shift: int
    clip_min: int
    clip_max: int
    leaky: Leaky | None = None


@dataclass(frozen=True)
class FusedPool:
    """A pooling that reads the convolution's output rows and is all that is stored.

    kind "max": padding never wins (it is absent). kind "average": see `Pool`.
    """

    kind: PoolKind
    window: Window
    multiplier: int = 1
    shift: int = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class OpBase:
    """What all ops share. `name` is the layer's name in reports (the imported name where there is one).

    The ops of this module are fixed point and executed by `nnkit.simulate`; the ops of another arithmetic say in
    `compute` what they do.
    """

    kind: ClassVar[str]
    name: str
    inputs: tuple[str, ...]
    output: str
    placement: Placement = "npu"
    tags: tuple[str, ...] = ()
    accumulator: Accumulator = "int32"
    proof: Proof = "not_applicable"
    proof_note: str = ""
    bits_lost: float = 0.0  # bits of weight resolution given up for the proof
    origins: tuple[str, ...] = field(default=())

    def compute(self, inputs: Sequence[NDArray[Any]], output: Tensor) -> NDArray[Any]:
        """Stored values in, stored values out (of `output`'s format), neither with a batch axis.

        Raises InternalError where an op has not said what it does.
        """
        raise InternalError(f"the op {self.kind!r} has no arithmetic", where=self.name)

    def multiply_accumulates(self, tensors: Mapping[str, Tensor]) -> int:
        """Multiply-accumulates of one inference; 0 for ops without weights."""
        return 0

    def weight_formats(self) -> dict[str, str]:
        """Formats of what the op carries along, by what reports call it: `weight`, `bias`."""
        return {}


@dataclass(frozen=True, eq=False, kw_only=True)
class Convolution(OpBase):
    """What both convolutions have: weights and bias as integers, how the window moves, the output stage.

    A weight stands for w * 2^-weight_frac; the bias [O] is shifted left by bias_shift to the accumulator's fraction.
    """

    weight: NDArray[Any]
    weight_bits: int
    weight_frac: int
    bias: NDArray[np.int32]
    bias_frac: int
    bias_shift: int
    window: Window
    stage: OutputStage
    groups: int = 1

    def weight_formats(self) -> dict[str, str]:
        """Of weight and bias."""
        return {"weight": f"s{self.weight_bits}.{self.weight_frac}", "bias": f"s32.{self.bias_frac}"}


@dataclass(frozen=True, eq=False, kw_only=True)
class Conv2d(Convolution):
    """Convolution (also grouped, depthwise, dilated; a fully connected layer is a full-window one).

    wide:    acc = (bias << bias_shift) + sum(x * w) over all taps in `accumulator`; output stage.
    running: (signed storage only) per output value an int plane v starts from bias; for each input channel of the
             group in order
             v = clamp(NORM((v << stage.shift) + sum_kernel(x * w), stage.shift), storage); then the output
             stage's leaky and clip (its shift is already spent).
    Padded taps read `pad_value` (an integer in the input's format).
    weight: [O, I/groups, kh, kw] integers; bias: [O] integers.
    """

    kind: ClassVar[str] = "conv2d"
    pad_value: int = 0
    accumulate: Accumulate = "wide"
    pool: FusedPool | None = None

    def multiply_accumulates(self, tensors: Mapping[str, Tensor]) -> int:
        """One per weight and output position; a fused pool does not change the count."""
        out_h, out_w = self.window.output_hw(*tensors[self.inputs[0]].shape[-2:])
        return out_h * out_w * int(self.weight.size)


@dataclass(frozen=True, eq=False, kw_only=True)
class ConvTranspose2d(Convolution):
    """Transposed convolution, `wide`: acc = (bias << bias_shift) + sum over taps that hit the output position.

    Output y[o, oy, ox] sums x[i, iy, ix] * w[i, o, ky, kx] with oy = iy*stride_h - pad_top + ky*dilation_h
    (and likewise in x). weight: [I, O/groups, kh, kw] as in ONNX; the output's size is the tensor's shape.
    """

    kind: ClassVar[str] = "conv_transpose2d"

    def multiply_accumulates(self, tensors: Mapping[str, Tensor]) -> int:
        """One per weight and input position."""
        height, width = tensors[self.inputs[0]].shape[-2:]
        return height * width * int(self.weight.size)


@dataclass(frozen=True, eq=False, kw_only=True)
class Pool(OpBase):
    """Pooling. max: padding is absent. average: v = NORM(sum * multiplier, shift) in int64, then clamp + clip.

    `multiplier` stands for 2^shift/taps. With `count_include_pad` false and padding, `multipliers_by_count[n]`
    gives the multiplier for a window of n present taps (index 0 unused).
    """

    kind: ClassVar[str] = "pool"
    pool: PoolKind
    window: Window
    multiplier: int = 1
    shift: int = 0
    multipliers_by_count: tuple[int, ...] = ()
    clip_min: int
    clip_max: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Add(OpBase):
    """Element-wise sum of two tensors of one shape: acc = (a << shifts[0]) + (b << shifts[1]); output stage."""

    kind: ClassVar[str] = "add"
    shifts: tuple[int, int]
    stage: OutputStage


@dataclass(frozen=True, eq=False, kw_only=True)
class Mul(OpBase):
    """Element-wise product; the second input has the first's shape or is [C, 1, 1]: acc = a * b; output stage."""

    kind: ClassVar[str] = "mul"
    stage: OutputStage


@dataclass(frozen=True, eq=False, kw_only=True)
class Activation(OpBase):
    """A clamp or a leaky slope that could not be fused: acc = x; output stage (shift may requantise)."""

    kind: ClassVar[str] = "activation"
    stage: OutputStage


@dataclass(frozen=True, eq=False, kw_only=True)
class Concat(OpBase):
    """Concatenation along the channels: each part v = clamp(NORM(x, shifts[i]), storage of the output).

    A part with shift 0 and the output's storage is bit-identical, so the planner may let its producer
    write in place.
    """

    kind: ClassVar[str] = "concat"
    shifts: tuple[int, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Upsample(OpBase):
    """Nearest-neighbour upsampling by whole factors: y[c, oy, ox] = x[c, oy // scale_h, ox // scale_w]."""

    kind: ClassVar[str] = "upsample"
    scale_h: int
    scale_w: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Pad(OpBase):
    """Constant padding of H and W with `value` (an integer in the tensor's format)."""

    kind: ClassVar[str] = "pad"
    top: int
    left: int
    bottom: int
    right: int
    value: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Reshape(OpBase):
    """Another shape over the same elements in the same order: costs nothing, the planner aliases it."""

    kind: ClassVar[str] = "reshape"


Op: TypeAlias = Conv2d | ConvTranspose2d | Pool | Add | Mul | Activation | Concat | Upsample | Pad | Reshape

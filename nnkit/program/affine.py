"""The affine integer program: ops over 8- and 16-bit tensors with scale and zero point, and their exact arithmetic.

Conventions (one definition for the simulator and every export):

* Tensors have no batch axis: [C, H, W] or [F]. Stored integers q mean (q - zero_point) * scale.
* RQ(x, m, s) = (x * m + 2^(s-1)) >> s: multiplier and shift with a *single* rounding, half toward +infinity; m is an
  int32, 1 <= s <= 62. A real factor f becomes m = round(f * 2^s) with |m| in [2^30, 2^31).
* Accumulators are proven, per output channel and sign-split over the weights: with x - zx in [lo, hi] the sums lie in
  [sum_{w>0} w*lo + sum_{w<0} w*hi, sum_{w>0} w*hi + sum_{w<0} w*lo] + bias. With 8-bit operands they are int32 and
  the product in RQ has 64 bits. With a 16-bit operand they are int32 where that is proven, else int64 (an op says
  which); RQ is then still exact, in a product of 94 bits.
* Bits are those of each tensor: an op reads and writes tensors of either width, and its RQ is the seam between them.
* Every op that computes ends in v = clamp(RQ(acc, m, s) + zero point of the output, clip_min, clip_max).
* With `negative_multiplier` (leaky slopes) a negative accumulator takes that multiplier instead of m: still one
  rounding, slope included.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit.program.formats import Affine
from nnkit.program.ops import OpBase, Proof, Window
from nnkit.program.program import Program, Tensor

IntArray: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class AffineTensor(Tensor):
    """A value of an affine program; its format is per tensor. Without bounds it can hold all that the format can."""

    format: Affine

    def __post_init__(self) -> None:
        if self.low == self.high == 0:
            object.__setattr__(self, "low", self.format.qmin)
            object.__setattr__(self, "high", self.format.qmax)

    @property
    def scale(self) -> float:
        """Its one scale."""
        return self.format.scale[0]

    @property
    def zero_point(self) -> int:
        """Its one zero point."""
        return self.format.zero_point[0]

    @property
    def reach(self) -> int:
        """The largest |q - zero point|."""
        return max(self.format.qmax - self.zero_point, self.zero_point - self.format.qmin)


@dataclass(frozen=True, eq=False)
class Requantize:
    """RQ and the clamp: `multiplier` and `shift` are [1] or [C] int64; bounds are stored integers of the output."""

    multiplier: IntArray
    shift: IntArray
    clip_min: int
    clip_max: int
    negative_multiplier: IntArray | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class AffineOpBase(OpBase):
    """Fields that all ops share; `nnkit.simulate.affine` executes them, many inputs at a time."""


@dataclass(frozen=True, eq=False, kw_only=True)
class AffineConv(AffineOpBase):
    """acc = bias + sum((x - zx) * (w - zw)); RQ per output channel. Padding reads `pad_value` (stored; zx for 0).

    weight: stored integers (int8, int16), conv [O, I/g, kh, kw], transposed [I, O/g, kh, kw]; weight_format has their
    scales (its axis is that of the output channels, or None). bias: int32 [O] in units of input scale * weight scale.
    """

    weight: NDArray[Any]
    weight_format: Affine
    bias: NDArray[np.int32]
    window: Window
    groups: int
    pad_value: int
    transposed: bool
    requantize: Requantize
    kind: ClassVar[str] = "conv2d"
    proof: Proof = "proven"

    def multiply_accumulates(self, tensors: Mapping[str, Tensor]) -> int:
        """One per weight and output position, of a transposed convolution per input position."""
        positions = tensors[self.inputs[0] if self.transposed else self.output].shape[-2:]
        return int(np.prod(positions)) * int(self.weight.size)

    def weight_formats(self) -> dict[str, str]:
        """Of weight and bias."""
        return {"weight": str(self.weight_format), "bias": "s32 affine"}


@dataclass(frozen=True, eq=False, kw_only=True)
class AffinePool(AffineOpBase):
    """Maximum (input's format; padding is absent), or average: acc = sum(x - zx) over the present taps; RQ.

    `by_count`: where padded taps do not count, the requantisation of a window of n present taps is by_count[n].
    """

    kind: ClassVar[str] = "pool"
    pool: Literal["max", "average"]
    window: Window
    requantize: Requantize | None = None
    by_count: tuple[IntArray, ...] = ()
    count_include_pad: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class AffineAdd(AffineOpBase):
    """acc = (a - za) * ma + (b - zb) * mb; RQ with multiplier 1 and the shared shift.

    |m| <= 2^20 and int32 for operands of 8 bits, |m| <= 2^30 and int64 where one has 16.
    """

    kind: ClassVar[str] = "add"
    multipliers: tuple[int, int]
    requantize: Requantize
    proof: Proof = "proven"


@dataclass(frozen=True, eq=False, kw_only=True)
class AffineMul(AffineOpBase):
    """acc = (a - za) * (b - zb); RQ. The second input has the first's shape or is [C, 1, 1]."""

    kind: ClassVar[str] = "mul"
    requantize: Requantize
    proof: Proof = "proven"


@dataclass(frozen=True, eq=False, kw_only=True)
class AffineActivation(AffineOpBase):
    """acc = x - zx; RQ with bounds or slopes."""

    kind: ClassVar[str] = "activation"
    requantize: Requantize


@dataclass(frozen=True, eq=False, kw_only=True)
class AffineConcat(AffineOpBase):
    """Along the channels; each part: acc = x - zx, its own RQ (a part in the output's format is copied)."""

    kind: ClassVar[str] = "concat"
    requantize: tuple[Requantize | None, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class AffineMove(AffineOpBase):
    """Moves stored integers: `reshape`, nearest `upsample` by scale_hw, or `pad` (top, left, bottom, right)."""

    kind: ClassVar[str] = "move"
    move: Literal["reshape", "upsample", "pad"]
    scale_hw: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    pad_value: int = 0


AffineOp: TypeAlias = AffineConv | AffinePool | AffineAdd | AffineMul | AffineActivation | AffineConcat | AffineMove


@dataclass(frozen=True, eq=False)
class AffineProgram(Program):
    """A program of affine ops over affine tensors."""

    tensors: Mapping[str, AffineTensor]
    ops: tuple[AffineOp, ...]
    numerics: str = "nnkit.program.affine"


def with_names(program: AffineProgram, names: Mapping[str, str]) -> AffineProgram:
    """The program with values called otherwise: new names by old ones; values that are not listed keep theirs."""

    def new(name: str) -> str:
        return names.get(name, name)

    return replace(
        program,
        tensors={new(name): replace(tensor, name=new(name)) for name, tensor in program.tensors.items()},
        ops=tuple(
            replace(op, inputs=tuple(new(name) for name in op.inputs), output=new(op.output)) for op in program.ops
        ),
        inputs=tuple(new(name) for name in program.inputs),
        outputs=tuple(new(name) for name in program.outputs),
    )

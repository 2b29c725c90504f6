"""The float program: the graph as the quantisers see it, one op for each that the hardware will run.

An op gathers a chain of ONNX nodes (pad, convolution, activation, pool) that restructuring marked to run as one. The
classes are named after those of the integer program (`nnkit.program`). Numbers are real; shapes have no batch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit.graph import ValueTags
from nnkit.program import Affine, Window
from nnkit.quantize.functions import Function

FloatArray: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Nonlinearity:
    """Clamp to [low, high] (None: no bound), or negative-side slopes ([1] or [C])."""

    low: float | None = None
    high: float | None = None
    slopes: FloatArray | None = None

    @property
    def non_negative(self) -> bool:
        """Whether the result cannot be below zero."""
        return self.low is not None and self.low >= 0.0


@dataclass(frozen=True)
class PoolWindow:
    """A pool that runs as part of a convolution; see `FloatAveragePool` for counts_padding."""

    kind: Literal["max", "average"]
    window: Window
    counts_padding: bool = False


@dataclass(frozen=True, eq=False)
class StoredWeights:
    """Integer weights that a model brought along: (values - zero_point) * scale, along `axis` (None: one scale).

    values: shaped as the weights in the model; scale [1] or [O] float64, zero_point int64 of the same length.
    """

    values: NDArray[Any]
    scale: FloatArray
    zero_point: NDArray[np.int64]
    axis: int | None

    def real(self) -> FloatArray:
        """In real units."""
        shape = [-1 if index == self.axis else 1 for index in range(self.values.ndim)]
        return np.asarray((self.values - self.zero_point.reshape(shape)) * self.scale.reshape(shape), np.float64)


@dataclass(frozen=True, eq=False, kw_only=True)
class FloatOp:
    """What all ops share.

    range_value: the value whose calibrated range sizes the output's format (for a convolution with an average pool
        the value before the pool, otherwise the output itself).
    computes: whether it does arithmetic; an op that only moves or compares numbers keeps its input's format.
    """

    computes: ClassVar[bool] = False

    name: str
    inputs: tuple[str, ...]
    output: str
    range_value: str
    tags: ValueTags

    @property
    def nonlinearity(self) -> Nonlinearity | None:
        """What it does to its result before that is stored."""
        return None


@dataclass(frozen=True, eq=False, kw_only=True)
class ActivatedOp(FloatOp):
    """An op that can take in an activation."""

    computes: ClassVar[bool] = True

    activation: Nonlinearity | None = None

    @property
    def nonlinearity(self) -> Nonlinearity | None:
        """The activation that it took in."""
        return self.activation


@dataclass(frozen=True, eq=False, kw_only=True)
class FloatConvolution(ActivatedOp):
    """What both convolutions share. bias: [O].

    stored: the integers that `weight` came from, of its shape; quantisers of that format use them as they are.
    """

    weight: FloatArray
    bias: FloatArray
    window: Window
    groups: int = 1
    stored: StoredWeights | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class FloatConv2d(FloatConvolution):
    """weight: [O, I / groups, kh, kw]. pad_value: what the padding holds. pool: it runs behind the activation."""

    pad_value: float = 0.0
    pool: PoolWindow | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class FloatConvTranspose2d(FloatConvolution):
    """weight: [I, O / groups, kh, kw]."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FloatAdd(ActivatedOp):
    """The sum of two values of one shape."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FloatMul(ActivatedOp):
    """The product of two values; the second may have one number a channel."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FloatActivation(FloatOp):
    """An activation that no other op took in."""

    computes: ClassVar[bool] = True

    activation: Nonlinearity

    @property
    def nonlinearity(self) -> Nonlinearity:
        """The activation."""
        return self.activation


@dataclass(frozen=True, eq=False, kw_only=True)
class FloatFunction(FloatOp):
    """A function of every number by itself."""

    computes: ClassVar[bool] = True

    function: Function


@dataclass(frozen=True, eq=False, kw_only=True)
class FloatSign(FloatFunction):
    """-1, 0 or 1. In fixed point it is no table, whose steps would blur the jump at 0."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FloatSoftmax(FloatOp):
    """axis: of the value, the batch not counted."""

    computes: ClassVar[bool] = True

    axis: int


@dataclass(frozen=True, eq=False, kw_only=True)
class FloatLogSoftmax(FloatOp):
    """The logarithm of a softmax. axis: of the value, the batch not counted."""

    computes: ClassVar[bool] = True

    axis: int


@dataclass(frozen=True, eq=False, kw_only=True)
class FloatOnnx(FloatOp):
    """An operator that stays in float. model: it alone, for a batch of 1, with its constants and `inputs`."""

    computes: ClassVar[bool] = True

    operator: str
    model: bytes


@dataclass(frozen=True, eq=False, kw_only=True)
class FloatEmbedding(FloatOp):
    """Rows of `table` [rows, features] by their numbers, which are whole."""

    computes: ClassVar[bool] = True

    table: NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class FloatMaxPool(FloatOp):
    """Padding never wins."""

    window: Window


@dataclass(frozen=True, eq=False, kw_only=True)
class FloatAveragePool(FloatOp):
    """counts_padding: padded elements count as zeros; otherwise the mean is of those within the map."""

    computes: ClassVar[bool] = True

    window: Window
    counts_padding: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class FloatConcat(FloatOp):
    """Along the channels."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FloatUpsample(FloatOp):
    """Every row and column repeated."""

    scale_h: int
    scale_w: int


@dataclass(frozen=True, eq=False, kw_only=True)
class FloatPad(FloatOp):
    """pads: top, left, bottom, right."""

    pads: tuple[int, int, int, int]
    value: float


@dataclass(frozen=True, eq=False, kw_only=True)
class FloatReshape(FloatOp):
    """The same numbers in the same order under another shape."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FloatTranspose(FloatOp):
    """order: for each axis of the result, the axis of the data, the batch not counted."""

    order: tuple[int, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class FloatSlice(FloatOp):
    """A strided slice: on each axis but the batch, elements from `starts` on by `steps`; the result says how many."""

    starts: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class FloatNormalizeRows(FloatOp):
    """Each row of the last axis with mean 0 and variance 1, times gain plus offset, one each for every element."""

    computes: ClassVar[bool] = True

    gain: FloatArray
    offset: FloatArray
    epsilon: float


@dataclass(frozen=True, eq=False, kw_only=True)
class FloatMatMul(FloatOp):
    """[..., m, k] times [..., k, n], matrix by matrix."""

    computes: ClassVar[bool] = True


@dataclass(frozen=True, eq=False)
class FloatProgram:
    """Ops in order of execution. shapes: of every value; inputs and outputs by value name.

    formats: of values that a model brought along; quantisers of that kind use them as they are.
    """

    ops: tuple[FloatOp, ...]
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    formats: Mapping[str, Affine] = field(default_factory=dict)

    def with_sixteen_bits(self, values: Collection[str]) -> FloatProgram:
        """The program with the ops that make `values` tagged for 16 bits, beside those that were."""
        wanted = frozenset(values)
        ops = tuple(replace(op, tags=replace(op.tags, hp=True)) if op.output in wanted else op for op in self.ops)
        return replace(self, ops=ops)

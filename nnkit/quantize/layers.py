"""Float layers: the graph as the quantiser sees it, one layer per op that the hardware will execute.

A layer gathers a chain of ONNX nodes (pad, convolution, activation, pool) that restructuring marked to run as one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit.graph import ValueTags
from nnkit.program import Window

LayerKind: TypeAlias = Literal[
    "conv2d",
    "conv_transpose2d",
    "max_pool",
    "average_pool",
    "add",
    "mul",
    "activation",
    "concat",
    "upsample",
    "pad",
    "reshape",
]

FloatArray: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FloatActivation:
    """Clamp to [low, high] in real units (None: no bound), or negative-side slopes ([1] or [C])."""

    low: float | None = None
    high: float | None = None
    slopes: FloatArray | None = None

    @property
    def non_negative(self) -> bool:
        """Whether the result cannot be below zero."""
        return self.low is not None and self.low >= 0.0


@dataclass(frozen=True)
class FloatPool:
    """A pool: `count_include_pad` is ONNX's; it matters for average pools with padding only."""

    kind: Literal["max", "average"]
    window: Window
    count_include_pad: bool = False


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
class FloatLayer:
    """One layer. Which fields matter follows from `kind`.

    range_value: the value whose calibrated range sizes the output's format (for a fused average pool the value
        before it, otherwise the output itself).
    weight: conv [O, I/g, kh, kw], transposed [I, O/g, kh, kw]; bias [O]; both in real units.
    stored: the integers that `weight` came from, of its shape; quantisers of that format use them as they are.
    """

    kind: LayerKind
    name: str
    inputs: tuple[str, ...]
    output: str
    range_value: str
    tags: ValueTags
    weight: FloatArray | None = None
    bias: FloatArray | None = None
    stored: StoredWeights | None = None
    window: Window | None = None
    groups: int = 1
    pad_value: float = 0.0
    activation: FloatActivation | None = None
    pool: FloatPool | None = None
    scale_hw: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)


@dataclass(frozen=True, eq=False)
class FloatLayers:
    """The layers of a model in execution order. Shapes have no batch axis; inputs and outputs by value name."""

    layers: tuple[FloatLayer, ...]
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()

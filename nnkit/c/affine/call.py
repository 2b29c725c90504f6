"""What the C of an affine op comes to: calls of kernels, with their numbers and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit.memory.accesses import Accesses
from nnkit.program import Window
from nnkit.program.affine import AffineTensor

TableKind: TypeAlias = Literal["ints", "shorts", "bytes"]


@dataclass(frozen=True)
class Kernel:
    """A function of a template. structure: of its numbers. variant: what the template is filled with.

    Structure and variant make its name.
    """

    template: str
    structure: str
    variant: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """The function's name without the network's prefix."""
        return "_".join((self.structure, *(value for _, value in self.variant if value)))

    @property
    def values(self) -> Mapping[str, str]:
        """The variant by name."""
        return dict(self.variant)


@dataclass(frozen=True, eq=False)
class Table:
    """Constant numbers of a call: `ints` have 32 bits, `shorts` 16, `bytes` 8."""

    kind: TableKind
    values: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Call:
    """One call: kernel(&numbers, reads ..., write, tables ..., scratch).

    numbers: the members of the kernel's structure, by name. tables: by name, in the order of the parameters.
    scratch_bytes: working memory of this call alone; 0: the kernel takes none.
    in_place: indices of `reads` that `write` may lie upon, where both have as many bytes.
    accesses: of the first of `reads` and of `write`, which may lie upon it as they allow; None: it must not.
    strided: the kernel has a number `y_stride`, so that its pixels may lie between others'.
    first_channel: how many elements into each pixel of `write` its own begin.
    row_step: from one row that it writes to the next, in elements of `write`; 0: they follow each other.
    """

    kernel: Kernel
    numbers: Mapping[str, int]
    reads: tuple[str, ...]
    write: str
    tables: Mapping[str, Table] = field(default_factory=dict)
    scratch_bytes: int = 0
    in_place: frozenset[int] = frozenset()
    accesses: Accesses | None = None
    strided: bool = False
    first_channel: int = 0
    row_step: int = 0


@dataclass(frozen=True)
class View:
    """An op that moves nothing: `output` is `source` under another shape."""

    source: str
    output: str


@dataclass(frozen=True)
class Join:
    """A part of a concatenation: `source` belongs `offset` elements into every pixel of `output`; rows into it.

    copies: what is called where it cannot be written there at once. joins: whether it may be, having its format.
    """

    source: str
    output: str
    offset: int
    copies: Call
    joins: bool


Code: TypeAlias = Sequence[Call | View | Join]


def pixels_and_channels(shape: tuple[int, ...]) -> tuple[int, int]:
    """How a tensor lies in memory: [C, H, W] as H * W pixels of C channels, any other shape as it is, one pixel."""
    if len(shape) == 3:
        return shape[1] * shape[2], shape[0]
    return 1, prod(shape)


def physical(values: NDArray[Any]) -> NDArray[Any]:
    """[C, H, W] as it lies in memory, [H, W, C]; any other shape as it is."""
    return np.ascontiguousarray(values.transpose(1, 2, 0) if values.ndim == 3 else values)


def logical(stored: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """What `physical` gave, in the tensor's shape."""
    if len(shape) == 3:
        return stored.reshape(shape[1], shape[2], shape[0]).transpose(2, 0, 1)
    return stored.reshape(shape)


def suffix(tensor: AffineTensor) -> str:
    """`u8`, `i8`, `u16` or `i16`: nnkit_types.h has its type."""
    return f"{'i' if tensor.format.signed else 'u'}{tensor.format.bits}"


def window_numbers(window: Window) -> dict[str, int]:
    """The members of a kernel's structure that tell of its window."""
    return {
        "kernel_h": window.kernel_h,
        "kernel_w": window.kernel_w,
        "stride_h": window.stride_h,
        "stride_w": window.stride_w,
        "dilation_h": window.dilation_h,
        "dilation_w": window.dilation_w,
        "pad_top": window.pad_top,
        "pad_left": window.pad_left,
    }

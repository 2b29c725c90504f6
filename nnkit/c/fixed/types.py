"""Storage types of tensors in C, and how functions are named after them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from nnkit.c.text import integer_type
from nnkit.program import Fixed, Tensor


@dataclass(frozen=True, order=True)
class CType:
    """An integer storage type: `c` in C, `tag` in function names."""

    c: str
    tag: str
    bytes: int


def ctype(fixed: Fixed) -> CType:
    """The C type that stores a fixed-point tensor."""
    return CType(integer_type(fixed.bits, fixed.signed), f"{'s' if fixed.signed else 'u'}{fixed.bits}", fixed.bytes)


def raw_type(size_bytes: int) -> CType:
    """The type that moves elements of this size without looking at them."""
    return CType(integer_type(8 * size_bytes, False), f"x{8 * size_bytes}", size_bytes)


def same_storage(a: Fixed, b: Fixed) -> bool:
    """Whether both store integers of the same type."""
    return (a.bits, a.signed) == (b.bits, b.signed)


def chw(tensor: Tensor) -> tuple[int, int, int]:
    """Shape as (C, H, W); [F] is (F, 1, 1), and axes behind the third count to the width."""
    channels, height, *rest = (*tensor.shape, 1, 1)
    return channels, height, prod(rest)

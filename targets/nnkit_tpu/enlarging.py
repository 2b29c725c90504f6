"""Bilinear resizing on the cv18xx, as layers that they compute in integers.

The compiler leaves a resize with aligned corners to the host's runtime, float32 between two parts of the model, and
makes of one with half-pixel coordinates a convolution whose input is padded by its edge. Here the first, and one by
more than 15, of which the compiler's convolution gives other values, is a product with a matrix over the whole map,
which is rounded once, or one along each axis, y = M_h x M_w^T, whichever moves fewer bytes. Heights come first, as
these are turned while the map is small, as channels of a convolution, whose weights have scales of their own. The
second, by a whole factor f, is a padding by the edge and a transposed convolution of every channel with a triangle
2f wide; along an axis that keeps its size there is no padding, as the compiler (1.30.2) cuts none off again there.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from nnkit.program import Window
from nnkit_tpu.chained import Made, Step, chained
from nnkit_tpu.kernels import interpolated
from nnkit_tpu.program import (
    FloatArray,
    TpuConv,
    TpuDeconv,
    TpuInterp,
    TpuMatMul,
    TpuPad,
    TpuPermute,
    TpuReshape,
)

_TURNED = (0, 2, 1, 3)

LONGEST_STRIDE = 15
"""The longest stride that transposed convolutions have on the cv18xx; the compiler takes others, for other values."""


def enlarged(op: TpuInterp, before: Sequence[int], after: Sequence[int]) -> list[Made]:
    """Layers with their outputs' shapes; the last one has the output of `op`. Shapes are [N, C, H, W]."""
    factors = (after[2] // before[2], after[3] // before[3])
    if op.coordinates == "align_corners" or max(factors) > LONGEST_STRIDE:
        whole = _whole_bytes(before, after) <= _axes_bytes(before, after)
        return chained(op, _whole_map(op, before, after) if whole else _along_axes(op, before, after))
    return _by_triangles(op, before, factors) if 1 not in after[2:] else []


def _whole_bytes(before: Sequence[int], after: Sequence[int]) -> int:
    """Values, of the map, the result and the matrix, that are loaded and stored."""
    return prod(before) + prod(after) + prod(before[2:]) * prod(after[2:])


def _axes_bytes(before: Sequence[int], after: Sequence[int]) -> int:
    """The same of two products and two turns."""
    between = prod(before[:2]) * after[2] * before[3]
    return 3 * prod(before) + 4 * between + prod(after) + before[2] * after[2] + before[3] * after[3]


def _whole_map(op: TpuInterp, before: Sequence[int], after: Sequence[int]) -> list[Step]:
    matrix = np.kron(_matrix(op, before[2], after[2]), _matrix(op, before[3], after[3]))
    images, channels = before[:2]
    return [
        ("rows", TpuReshape, {}, (images, channels, prod(before[2:]))),
        ("product", TpuMatMul, {"weight": matrix}, (images, channels, prod(after[2:]))),
        ("", TpuReshape, {}, tuple(after)),
    ]


def _along_axes(op: TpuInterp, before: Sequence[int], after: Sequence[int]) -> list[Step]:
    images, channels, height, width = before
    heights = np.ascontiguousarray(_matrix(op, height, after[2]).T)[:, :, None, None]
    by_height = {"weight": heights, "bias": None, "window": Window(1, 1)}
    return [
        ("turned", TpuPermute, {"order": _TURNED}, (images, height, channels, width)),
        ("heights", TpuConv, by_height, (images, after[2], channels, width)),
        ("back", TpuPermute, {"order": _TURNED}, (images, channels, after[2], width)),
        ("", TpuMatMul, {"weight": _matrix(op, width, after[3])}, tuple(after)),
    ]


def _matrix(op: TpuInterp, size: int, result: int) -> FloatArray:
    """[size, result]: what every pixel along an axis gives to every pixel of the result."""
    rows = np.eye(size)[None, :, None, :]
    return np.asarray(interpolated(rows, op, (1, result))[0, :, 0], np.float32)


def _by_triangles(op: TpuInterp, before: Sequence[int], factors: tuple[int, int]) -> list[Made]:
    images, channels, height, width = before
    padded = f"{op.output}_padded"
    edges = [int(factor > 1) for factor in factors]
    pads = (0, 0, *edges, 0, 0, *edges)
    common: dict[str, Any] = {"tags": op.tags, "origins": op.origins}
    pad = TpuPad(
        name=padded, inputs=op.inputs, output=padded, pads=pads, method="edge", range_of=op.inputs[0], **common
    )
    sides = [_triangle(factor) for factor in factors]
    # Of the whole result, three halves of a factor on each side lie beyond the image.
    cut = [edge * (3 * factor - factor % 2) // 2 for edge, factor in zip(edges, factors, strict=True)]
    window = Window(
        kernel_h=len(sides[0]),
        kernel_w=len(sides[1]),
        stride_h=factors[0],
        stride_w=factors[1],
        pad_top=cut[0],
        pad_left=cut[1],
        pad_bottom=cut[0],
        pad_right=cut[1],
    )
    weight = np.broadcast_to(np.outer(*sides), (channels, 1, len(sides[0]), len(sides[1])))
    spread = TpuDeconv(
        name=op.name,
        inputs=(padded,),
        output=op.output,
        weight=np.ascontiguousarray(weight, np.float32),
        bias=None,
        window=window,
        group=channels,
        range_of=op.range_of,
        **common,
    )
    shape = (images, channels, height + 2 * edges[0], width + 2 * edges[1])
    return [(pad, shape), (spread, (images, channels, height * factors[0], width * factors[1]))]


def _triangle(factor: int) -> FloatArray:
    """What a pixel gives to its neighbourhood of the enlarged axis: 2f weights where f is even, 2f - 1 otherwise."""
    taps = 2 * factor - factor % 2
    return np.asarray(1 - np.abs(np.arange(taps) - (taps - 1) / 2) / factor, np.float32)

"""Matrix products."""

from __future__ import annotations

import numpy as np

from nnkit.cpu_segments.calls import (
    Argument,
    Call,
    Lowered,
    Read,
    RefusedError,
    Struct,
    Table,
    Write,
    number,
    strides,
)
from nnkit.cpu_segments.calls import grid as make_grid
from nnkit.cpu_segments.graph import Layer
from nnkit.cpu_segments.lowering.elementwise import binary_call


def gemm(layer: Layer) -> Lowered:
    a, b = layer.shape(0), layer.shape(1)
    turned = bool(layer.attribute("transA", 0)), bool(layer.attribute("transB", 0))
    m, k = (a[1], a[0]) if turned[0] else (a[0], a[1])
    n = b[0] if turned[1] else b[1]
    a_steps = [1, a[1], 0] if turned[0] else [a[1], 1, 0]
    b_steps = [1, b[1], 0] if turned[1] else [b[1], 1, 0]
    calls = [_product(layer, (m, k, n, 1), a_steps, b_steps, float(layer.attribute("alpha", 1.0)))]
    beta = float(layer.attribute("beta", 1.0))
    if not layer.has(2) or beta == 0:
        return calls
    if beta == 1:
        return [*calls, binary_call(layer, "ADD", layer.output, layer.input(2))]
    scaled = np.broadcast_to(
        layer.constant(2, "its C, with a beta other than 1,") * np.float32(beta), layer.out_shape
    )
    steps: Struct = make_grid(layer.out_shape, strides(layer.out_shape), strides(layer.out_shape))
    table = Table(np.ascontiguousarray(scaled, np.float32))
    arguments: tuple[Argument, ...] = ("NNKIT_ADD", Read(layer.output), table, Write(layer.output), steps)
    return [*calls, Call("binary", "nnkit_binary", arguments)]


def matmul(layer: Layer) -> Lowered:
    a, b = list(layer.shape(0)), list(layer.shape(1))
    a = [1, *a] if len(a) == 1 else a
    b = [*b, 1] if len(b) == 1 else b
    outer_a, outer_b = int(np.prod(a[:-2])), int(np.prod(b[:-2]))
    even = a[:-2] == b[:-2] or outer_a == 1 or outer_b == 1
    if not even:
        raise RefusedError("broadcasts some of its batch dimensions")
    m, k, n = a[-2], a[-1], b[-1]
    a_steps = [k, 1, m * k if outer_a > 1 else 0]
    b_steps = [n, 1, k * n if outer_b > 1 else 0]
    return [_product(layer, (m, k, n, max(outer_a, outer_b)), a_steps, b_steps, 1.0)]


def _product(layer: Layer, sizes: tuple[int, ...], a_steps: list[int], b_steps: list[int], alpha: float) -> Call:
    return Call(
        "matmul",
        "nnkit_matmul",
        (
            Read(layer.input(0)),
            Read(layer.input(1)),
            Write(layer.output),
            *map(str, sizes),
            Table(np.array(a_steps, np.int32)),
            Table(np.array(b_steps, np.int32)),
            number(alpha),
        ),
    )

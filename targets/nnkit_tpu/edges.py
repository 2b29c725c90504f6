"""Padding by the edge of images of few channels in INT8 networks on the BM chips, as a product.

The compiler has it in floating point alone, row by row through global memory. A product with a matrix of zeros and
ones is exact in integers: [C, H W] x [H W, H' W'].
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from nnkit_tpu.kernels import padded
from nnkit_tpu.program import FloatArray, Mode, TpuGraph, TpuMatMul, TpuOp, TpuPad, TpuReshape, TpuTensor

_IMAGE = 4  # axes
_MOST_BYTES = 1 << 18
"""The largest matrix: loading it takes less than the compiler's own padding does on the smallest of images."""


def edges_as_products(graph: TpuGraph, mode: Mode) -> TpuGraph:
    """The float graph with small paddings by the edge as products; mode: of the whole network."""
    if mode != "INT8":
        return graph
    tensors, ops = dict(graph.tensors), list[TpuOp]()
    for op in graph.ops:
        before, after = (graph.tensors[name].shape for name in (op.inputs[0], op.output))
        if not isinstance(op, TpuPad) or op.method != "edge" or not {"hp", "cpu"}.isdisjoint(op.tags):
            ops.append(op)
            continue
        small = len(before) == _IMAGE and prod(before[2:]) * prod(after[2:]) <= _MOST_BYTES
        if not small or before[:2] != after[:2]:
            ops.append(op)
            continue
        known = op.range_of or op.inputs[0]
        rows, product = f"{op.output}_rows", f"{op.output}_product"
        tensors[rows] = TpuTensor(rows, (*before[:2], prod(before[2:])))
        tensors[product] = TpuTensor(product, (*before[:2], prod(after[2:])))
        ops += [
            TpuReshape(name=rows, inputs=op.inputs, output=rows, tags=op.tags, range_of=known),
            TpuMatMul(
                name=op.name,
                inputs=(rows,),
                output=product,
                tags=op.tags,
                origins=op.origins,
                range_of=known,
                weight=_places(op, before[2:]),
            ),
            TpuReshape(name=f"{op.name}_shape", inputs=(product,), output=op.output, tags=op.tags, range_of=known),
        ]
    return replace(graph, tensors=tensors, ops=tuple(ops)) if len(ops) > len(graph.ops) else graph


def _places(op: TpuPad, size: tuple[int, ...]) -> FloatArray:
    """[H W, H' W']: 1 where a value of the result is one of the image."""
    every = padded(np.arange(prod(size), dtype=np.float64).reshape(1, 1, *size), op, 0.0).reshape(-1)
    return np.asarray(np.arange(prod(size))[:, None] == every, np.float32)

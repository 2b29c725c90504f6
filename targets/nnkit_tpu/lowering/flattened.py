"""A matrix product behind a flattened 1 x 1 image is a 1 x 1 convolution.

The compiler makes that of it itself, with a multiplier for each channel, but only where nothing else reads the
flattened values: a model that gives them as an output would keep the product, with one multiplier, and compute
something else. Written as a convolution from the start, both are the same.
"""

from __future__ import annotations

from dataclasses import replace

from nnkit.program.ops import Window
from nnkit_tpu.program import FloatArray, TpuConv, TpuGraph, TpuMatMul, TpuOp, TpuReshape, TpuTensor


def convolve_flattened(graph: TpuGraph) -> TpuGraph:
    """[1, C, 1, 1] -> reshape [1, C] -> product [1, N], as convolution [1, N, 1, 1] -> reshape [1, N].

    The convolution keeps the product's name and gives a value of its own; the reshape gives the product's output.
    Only where the product alone reads the flattened values, and the tag `_cpu` is on neither.
    """
    tensors = dict(graph.tensors)
    ops: dict[str, TpuOp] = {}  # by output, in order
    for op in graph.ops:
        flat = ops.get(op.inputs[0])
        weight = op.weight if isinstance(op, TpuMatMul) else None
        if not (isinstance(op, TpuMatMul) and isinstance(flat, TpuReshape) and weight is not None):
            ops[op.output] = op
            continue
        if not _same_product(graph, flat, op):
            ops[op.output] = op
            continue
        columns = tensors[op.output].shape[-1]
        wide = _unused(f"{op.output}_conv", tensors)
        tensors[wide] = TpuTensor(wide, (1, columns, 1, 1))
        del ops[flat.output], tensors[flat.output]
        ops[wide] = _convolution(op, weight, flat, wide)
        ops[op.output] = replace(flat, name=f"{op.name}_flat", inputs=(wide,), output=op.output, tags=op.tags)
    return replace(graph, tensors=tensors, ops=tuple(ops.values()))


def _same_product(graph: TpuGraph, flat: TpuReshape, op: TpuMatMul) -> bool:
    before, between = graph.tensors[flat.inputs[0]].shape, graph.tensors[flat.output].shape
    return (
        len(before) == 4
        and before[2:] == (1, 1)
        and between == before[:2]
        and len(graph.consumers(flat.output)) == 1
        and flat.output not in graph.outputs
        and "cpu" not in (*flat.tags, *op.tags)
    )


def _convolution(op: TpuMatMul, weight: FloatArray, flat: TpuReshape, output: str) -> TpuConv:
    return TpuConv(
        name=op.name,
        inputs=flat.inputs,
        output=output,
        tags=op.tags,
        origins=tuple(dict.fromkeys((*flat.origins, *op.origins))),
        weight=weight.T[:, :, None, None],
        bias=op.bias,
        window=Window(1, 1),
        relu=op.relu,
        relu_limit=op.relu_limit,
    )


def _unused(name: str, taken: dict[str, TpuTensor]) -> str:
    while name in taken:
        name += "_"
    return name

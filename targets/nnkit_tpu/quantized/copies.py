"""Copies in integers, so that every value of a quantised network is rounded where the network rounds it.

What reads a layer in float32 as integers rounds it to its format. What reads it in float32, or takes it as an output,
does not: it reads a copy, a maximum over windows of one pixel in integers. A copy also keeps the compiler from making
one convolution of two, which would have neither's integers.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from nnkit.program import Window
from nnkit_tpu.program import TpuConv, TpuGraph, TpuOp, TpuPool, TpuReshape, TpuTensor

_IMAGE_RANK = 4


def with_copies(graph: TpuGraph, unrounded: Collection[str]) -> TpuGraph:
    """The graph with copies of float32 values that would not be rounded otherwise, and between convolutions.

    unrounded: values that are not the network's, which stay as they are.
    """
    float_readers = {
        name for op in graph.ops if op.mode == "F32" and not isinstance(op, TpuReshape) for name in op.inputs
    }
    made = _Made(graph)
    copied = {name: f"{name}_stored" for name in graph.inputs if name in float_readers}
    for name, output in copied.items():
        made.copy(name, output)
    for op in graph.ops:
        if op.mode == "F32":
            op = replace(op, inputs=tuple(copied.get(name, name) for name in op.inputs))
        kept = op.mode != "F32" or op.output in unrounded
        rounded = kept or (op.output not in float_readers and op.output not in graph.outputs)
        if rounded and not _is_merged(graph, op):
            made.ops.append(op)
            continue
        before = f"{op.output}_{'before' if rounded else 'real'}"
        made.tensors[before] = replace(graph.tensors[op.output], name=before)
        made.ops.append(replace(op, output=before))
        made.copy(before, op.output)
    return replace(graph, tensors=made.tensors, ops=tuple(made.ops))


def _is_merged(graph: TpuGraph, op: TpuOp) -> bool:
    """Whether the compiler would make one convolution of it and the one that reads it."""
    readers = graph.consumers(op.output)
    if len(readers) != 1 or op.output in graph.outputs:
        return False
    reader = readers[0]
    if not isinstance(op, TpuConv) or not isinstance(reader, TpuConv) or reader.window.has_padding:
        return False
    plain = all(each.group == 1 and not each.relu for each in (op, reader))
    return plain and (op.window.kernel_h, op.window.kernel_w) == (1, 1)


class _Made:
    """The ops and tensors so far."""

    def __init__(self, graph: TpuGraph) -> None:
        self.tensors = dict(graph.tensors)
        self.ops: list[TpuOp] = []

    def copy(self, source: str, output: str) -> None:
        """The value `source` as `output`; what is no image becomes one meanwhile."""
        tensor = replace(self.tensors[source], name=output)
        self.tensors[output] = tensor
        if len(tensor.shape) == _IMAGE_RANK:
            self._pool(source, output)
            return
        image, copied = f"{output}_image", f"{output}_copy"
        channels = tensor.shape[1] if len(tensor.shape) > 1 else 1
        shape = (1, channels, int(np.prod(tensor.shape)) // channels, 1)
        self.tensors |= {name: TpuTensor(name, shape, tensor.format) for name in (image, copied)}
        self.ops.append(TpuReshape(name=image, inputs=(source,), output=image, mode="F32"))
        self._pool(image, copied)
        self.ops.append(TpuReshape(name=output, inputs=(copied,), output=output, mode="INT8"))

    def _pool(self, source: str, output: str) -> None:
        own = -1.0 - len(self.tensors)  # of a relu that the pool does not have: of equal ops the compiler keeps one
        one = Window(1, 1)
        self.ops.append(
            TpuPool(
                name=output, inputs=(source,), output=output, mode="INT8", function="max", window=one, relu_limit=own
            )
        )

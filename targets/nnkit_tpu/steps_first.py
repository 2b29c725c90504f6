"""Recurrent layers as the compiler reads them for the cv18xx: steps stand first, [T, 1, I] -> [T, D, 1, H].

The compiler calls a part of a GRU by the name of what it reads, and ends where two read one value: each further one
reads a copy.
"""

from __future__ import annotations

from dataclasses import replace

from nnkit.calibrate.stats import ValueRange
from nnkit.graph.view import Shape
from nnkit_tpu.copies import copy_of
from nnkit_tpu.program import Mode, TpuGraph, TpuOp, TpuReshape, TpuTensor
from nnkit_tpu.recurrent import TpuRecurrent


def with_steps_first(
    graph: TpuGraph, ranges: dict[str, ValueRange] | None, modes: dict[str, str], mode: Mode
) -> TpuGraph:
    """The graph with a reshape before and behind every such layer; ranges and modes get those of the new values.

    mode: of the whole network.
    """
    tensors, ops, read = dict(graph.tensors), list[TpuOp](), set[str]()

    def value(name: str, shape: Shape, like: str) -> str:
        tensors[name] = TpuTensor(name, shape, tensors[like].format)
        if ranges is not None and like in ranges:
            ranges[name] = ranges[like]
        how = modes.get(op.output if like in graph.inputs else like)  # of an input it would make integers
        if how is not None:
            modes[name] = how
        return name

    def reshaped(source: str, name: str) -> str:
        ops.append(TpuReshape(name=name, inputs=(source,), output=name))
        return name

    for op in graph.ops:
        if not isinstance(op, TpuRecurrent) or not op.by_tables:
            ops.append(op)
            continue
        source, (_, length, width) = op.inputs[0], tensors[op.inputs[0]].shape
        _, _, ways, hidden = tensors[op.output].shape
        root = graph.reshaped_from(source)
        if op.cell == "gru" and root in read:
            image = reshaped(source, value(f"{op.output}_image", (1, 1, length, width), source))
            integer = modes.get(image, mode) == "INT8"
            copy = copy_of(tensors[image], f"{op.output}_copy", len(tensors), integer=integer)
            ops.append(copy)
            source = value(copy.output, tensors[image].shape, image)
        read.add(root)
        steps = reshaped(source, value(f"{op.output}_steps", (length, 1, width), source))
        states = value(f"{op.output}_states", (length, ways, 1, hidden), op.output)
        ops.append(replace(op, inputs=(steps,), output=states))
        reshaped(states, op.output)
    return replace(graph, tensors=tensors, ops=tuple(ops)) if len(ops) > len(graph.ops) else graph


def with_stored_inputs(graph: TpuGraph) -> TpuGraph:
    """The graph with inputs that such layers read made integers first, as for other layers of an INT8 network."""
    tensors, ops = dict(graph.tensors), list[TpuOp]()
    for op in graph.ops:
        if isinstance(op, TpuRecurrent) and op.inputs[0] in graph.inputs and "hp" not in op.tags:
            given, shape = op.inputs[0], tensors[op.inputs[0]].shape
            image, rows = f"{op.output}_given", f"{op.output}_given_rows"
            tensors[image], tensors[rows] = TpuTensor(image, (1, *shape)), TpuTensor(rows, shape)
            ops.append(TpuReshape(name=image, inputs=(given,), output=image, range_of=given))
            ops.append(TpuReshape(name=rows, inputs=(image,), output=rows, range_of=given))
            op = replace(op, inputs=(rows,))
        ops.append(op)
    return replace(graph, tensors=tensors, ops=tuple(ops)) if len(ops) > len(graph.ops) else graph

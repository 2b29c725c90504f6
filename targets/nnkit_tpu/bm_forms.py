"""What the compiler fails on for the BM chips, or computes wrongly, legalised.

* A layer normalisation of one row behind a reshape is moved before the reshape, and fails there or is computed
  wrongly: it is written for the same row twice.
* One that a reshape precedes, with transpositions or without, and that lacks a scale or a bias ends the compiler ("v
  is none type", "invalid tensor element type"): it gets ones and zeros.
* A slice of a matrix product, behind a reshape that only appends axes of 1, ends the compiler ("Invalid index!"): the
  product is sliced, and the slice reshaped.
* In INT8 a softmax along channels that a permutation swaps with rows, as in detectors that give distances as
  distributions, is moved before the swap by the compiler, whose code for it in local memory then is wrong. It is
  written along the rows, which the compiler computes in F16.
* A quotient by a square root becomes a product with one over the root, and in INT8 the compiler gives that one the
  root's threshold, which clips it. The root is computed in another shape: it is not recognised behind a reshape. On
  the cv18xx it ends on what it makes of root mean squares.
* Of keys of a single head, [N, rows, 1, features] turned to [N, 1, features, rows], the compiler takes the product to
  be of rows as batches, where the queries' rows are none. The product is computed without the axis of 1.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nnkit_tpu.lowering.repeated import needed
from nnkit_tpu.places import range_known_as
from nnkit_tpu.program import (
    TpuActivation,
    TpuBinary,
    TpuConcat,
    TpuGraph,
    TpuLayerNorm,
    TpuMatMul,
    TpuOp,
    TpuPermute,
    TpuReshape,
    TpuSlice,
    TpuSoftmax,
    TpuTensor,
)


def without_single_rows(graph: TpuGraph) -> TpuGraph:
    """The graph with every layer normalisation of one row [1, ..., 1, C] that a reshape makes, for two such rows."""
    tensors, ops = dict(graph.tensors), list[TpuOp]()
    for op in graph.ops:
        if not isinstance(op, TpuLayerNorm) or not _is_of_reshaped_row(graph, op):
            ops.append(op)
            continue
        known = range_known_as(graph, op.inputs[0])
        row, twice, both, one = (f"{op.output}_{part}" for part in ("row", "twice", "both", "one"))
        single = (1, 1, graph.tensors[op.output].shape[-1])
        for name in (row, one):
            tensors[name] = TpuTensor(name, single)
        for name in (twice, both):
            tensors[name] = TpuTensor(name, (1, 2, single[-1]))
        ops += [
            TpuReshape(name=row, inputs=op.inputs, output=row, range_of=known),
            TpuConcat(name=twice, inputs=(row, row), output=twice, axis=1, tags=("hp",), range_of=known),
            replace(op, inputs=(twice,), output=both, axis=2, range_of=op.output),
            TpuSlice(
                name=one,
                inputs=(both,),
                output=one,
                offsets=(0, 0, 0),
                steps=(1, 1, 1),
                ends=single,
                range_of=op.output,
            ),
            TpuReshape(name=f"{op.name}_shape", inputs=(one,), output=op.output, origins=op.origins),
        ]
    return replace(graph, tensors=tensors, ops=tuple(ops)) if len(ops) > len(graph.ops) else graph


def _is_of_reshaped_row(graph: TpuGraph, op: TpuLayerNorm) -> bool:
    shape = graph.tensors[op.output].shape
    one_row = op.axis == len(shape) - 1 and shape[-1] == np.prod(shape)
    return one_row and isinstance(graph.producer(op.inputs[0]), TpuReshape | TpuPermute)


def with_plain_single_heads(graph: TpuGraph) -> TpuGraph:
    """The graph with products of a single head's rows by its turned keys on [N, rows, features]."""
    tensors, ops = dict(graph.tensors), list[TpuOp]()
    for op in graph.ops:
        keys = _keys_of_a_single_head(graph, op)
        if keys is None:
            ops.append(op)
            continue
        images, count, _, features = graph.tensors[keys.inputs[0]].shape
        rows = graph.tensors[op.inputs[0]].shape[2]
        flat = []
        for name, shape in ((op.inputs[0], (images, rows, features)), (keys.inputs[0], (images, count, features))):
            source = graph.reshaped_from(name)
            flat.append(source if graph.tensors[source].shape == shape else f"{op.output}_{name}")
            if flat[-1] != source:
                tensors[flat[-1]] = TpuTensor(flat[-1], shape)
                ops.append(
                    TpuReshape(name=flat[-1], inputs=(name,), output=flat[-1], range_of=range_known_as(graph, name))
                )
        turned, scores = f"{op.output}_columns", f"{op.output}_scores"
        tensors[turned] = TpuTensor(turned, (images, features, count))
        tensors[scores] = TpuTensor(scores, (images, rows, count))
        known = range_known_as(graph, keys.inputs[0])
        ops += [
            replace(keys, name=turned, inputs=(flat[1],), output=turned, order=(0, 2, 1), range_of=known),
            replace(op, inputs=(flat[0], turned), output=scores, range_of=op.range_of or op.output),
            TpuReshape(name=f"{op.name}_shape", inputs=(scores,), output=op.output, range_of=op.range_of),
        ]
    if len(ops) == len(graph.ops):
        return graph
    read = needed(ops, graph.outputs)
    left = {op.output for op in read}.union(graph.inputs)
    return replace(graph, tensors={name: tensors[name] for name in tensors if name in left}, ops=read)


def _keys_of_a_single_head(graph: TpuGraph, op: TpuOp) -> TpuPermute | None:
    """What turns [N, rows, 1, features] to [N, 1, features, rows] for a product of as many heads."""
    if not isinstance(op, TpuMatMul) or op.weight is not None or len(graph.tensors[op.inputs[0]].shape) != 4:
        return None
    keys = graph.producer(op.inputs[1])
    if not isinstance(keys, TpuPermute) or keys.order != (0, 2, 3, 1):
        return None
    single = graph.tensors[keys.inputs[0]].shape[2] == 1 == graph.tensors[op.inputs[0]].shape[1]
    return keys if single else None


def with_whole_normalisations(graph: TpuGraph) -> TpuGraph:
    """The graph with a scale and a bias in every layer normalisation of a reshaped value."""
    ops = tuple(_whole(graph, op) for op in graph.ops)
    return graph if all(a is b for a, b in zip(ops, graph.ops, strict=True)) else replace(graph, ops=ops)


def _whole(graph: TpuGraph, op: TpuOp) -> TpuOp:
    if not isinstance(op, TpuLayerNorm):
        return op
    moved = graph.producer(op.inputs[0])
    while isinstance(moved, TpuPermute):  # transpositions around a reshape become one
        moved = graph.producer(moved.inputs[0])
    if not isinstance(moved, TpuReshape):
        return op
    axes = graph.tensors[op.output].shape[op.axis :]
    scale = np.ones(axes, np.float32) if op.scale is None else op.scale
    bias = np.zeros(axes, np.float32) if op.bias is None else op.bias
    return replace(op, scale=scale, bias=bias)


def sliced_before_reshapes(graph: TpuGraph) -> TpuGraph:
    """The graph with slices of products taken before a reshape that only appends axes of 1."""
    tensors, ops = dict(graph.tensors), list[TpuOp]()
    for op in graph.ops:
        product = _reshaped_product(graph, op) if isinstance(op, TpuSlice) else None
        if not isinstance(op, TpuSlice) or product is None:
            ops.append(op)
            continue
        rank = len(graph.tensors[product.output].shape)
        part = f"{op.output}_part"
        tensors[part] = TpuTensor(part, graph.tensors[op.output].shape[:rank])
        ops += [
            TpuSlice(
                name=part,
                inputs=(product.output,),
                output=part,
                offsets=op.offsets[:rank],
                steps=op.steps[:rank],
                ends=op.ends[:rank],
                tags=op.tags,
                range_of=product.range_of or product.output,
            ),
            TpuReshape(name=op.name, inputs=(part,), output=op.output, tags=op.tags, origins=op.origins),
        ]
    if len(ops) == len(graph.ops):
        return graph
    read = {*graph.outputs, *(name for op in ops for name in op.inputs)}
    unread = {op.output for op in ops if isinstance(op, TpuReshape)} - read
    kept = {name: tensor for name, tensor in tensors.items() if name not in unread}
    return replace(graph, tensors=kept, ops=tuple(op for op in ops if op.output not in unread))


def _reshaped_product(graph: TpuGraph, op: TpuSlice) -> TpuMatMul | None:
    """The matrix product that is sliced behind a reshape which only appends axes of 1; None: something else is."""
    reshape = graph.producer(op.inputs[0])
    product = graph.producer(reshape.inputs[0]) if isinstance(reshape, TpuReshape) else None
    if not isinstance(product, TpuMatMul):
        return None
    before, after = (graph.tensors[each].shape for each in (product.output, op.inputs[0]))
    return product if after == (*before, *(1,) * (len(after) - len(before))) else None


def roots_apart(graph: TpuGraph) -> TpuGraph:
    """The graph with a reshape before and behind every square root that something is divided by."""
    tensors, ops = dict(graph.tensors), list[TpuOp]()
    divisors = {op.inputs[-1] for op in graph.ops if isinstance(op, TpuBinary) and op.function == "div"}
    for op in graph.ops:
        if not isinstance(op, TpuActivation) or op.function != "sqrt" or op.output not in divisors:
            ops.append(op)
            continue
        known = range_known_as(graph, op.inputs[0])
        square, root = (f"{op.output}_{part}" for part in ("square", "root"))
        shape = graph.tensors[op.output].shape
        other = (*shape, 1) if len(shape) < 4 else (*shape[:-2], shape[-2] * shape[-1])
        for name in (square, root):
            tensors[name] = TpuTensor(name, other)
        ops += [
            TpuReshape(name=square, inputs=op.inputs, output=square, tags=op.tags, range_of=known),
            replace(op, inputs=(square,), output=root, range_of=op.range_of or op.output),
            TpuReshape(name=f"{op.name}_shape", inputs=(root,), output=op.output, tags=op.tags, range_of=op.range_of),
        ]
    return replace(graph, tensors=tensors, ops=tuple(ops)) if len(ops) > len(graph.ops) else graph


def softmax_before_swaps(graph: TpuGraph) -> TpuGraph:
    """The graph with softmax along channels that are rows before a permutation taken there, and then permuted."""
    tensors, ops, gone = dict(graph.tensors), list[TpuOp](), set[str]()
    for op in graph.ops:
        swap = _only_swapped_for(graph, op) if isinstance(op, TpuSoftmax) else None
        if not isinstance(op, TpuSoftmax) or swap is None:
            ops.append(op)
            continue
        along = f"{op.output}_rows"
        tensors[along] = TpuTensor(along, graph.tensors[swap.inputs[0]].shape)
        ops += [
            replace(op, inputs=swap.inputs, output=along, axis=swap.order[op.axis], range_of=op.output),
            replace(swap, inputs=(along,), output=op.output),
        ]
        gone.add(swap.output)
    if not gone:
        return graph
    kept = {name: tensor for name, tensor in tensors.items() if name not in gone}
    return replace(graph, tensors=kept, ops=tuple(op for op in ops if op.output not in gone))


def _only_swapped_for(graph: TpuGraph, op: TpuSoftmax) -> TpuPermute | None:
    """The swap of channels and rows that only this softmax along the channels reads; None: there is none."""
    swap = graph.producer(op.inputs[0])
    if op.axis != 1 or not isinstance(swap, TpuPermute) or swap.output in graph.outputs:
        return None
    alone = len(graph.consumers(swap.output)) == 1
    return swap if alone and swap.order == (0, 2, 1, *range(3, len(swap.order))) else None

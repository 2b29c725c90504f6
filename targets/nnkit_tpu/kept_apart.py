"""Fusion barriers: what the compiler for the BM chips fuses or splits by itself, and then fails on.

* A product with weights, a function in float32 and another product with weights, in F16 or BF16 with 1 in front: it
  computes each half of the values between by itself and adds the results up. Where anything else reads the values
  between, as in a traced model, it crashes. The function is computed in another shape: it is not recognised behind a
  reshape. Of few values the halves take up to twice the cycles, too; of many they take up to a tenth less, and are
  left to it.
* Scores that are multiplied by a number behind their product, a softmax of them and a product with the values, with
  heads transposed before and behind it: it makes one layer of it. In F16 or BF16 it would have to compile that
  layer's code by tools that are not part of it, and crashes; in INT8 the code gives other values where windows of an
  image stand in the place of images, and where keys and values are made of two values (DETR's decoder). There the
  softmax is computed with images and heads in one axis.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import cast

from nnkit.graph.view import Shape
from nnkit_tpu.chip_forms import Written
from nnkit_tpu.chips import chip_named
from nnkit_tpu.lifted import computed_mode
from nnkit_tpu.places import known_as
from nnkit_tpu.program import (
    Mode,
    TpuActivation,
    TpuBinary,
    TpuGraph,
    TpuMatMul,
    TpuOp,
    TpuPermute,
    TpuReshape,
    TpuSlice,
    TpuSoftmax,
    TpuTensor,
)

_HALVES = ("F16", "BF16")
_FEW_VALUES = 4
"""By lane: below this many the values of one row are faster whole (measured on both chips)."""
_HEADS = 4  # axes: images, heads, rows, columns


def kept_apart(written: Written, chip: str, mode: Mode) -> Written:
    """The same network with reshapes around such functions and softmax; mode: of the whole network."""
    graph, modes = written.graph, dict(written.modes or {})
    ranges = dict(written.ranges) if written.ranges is not None else None
    halves = {name for name, how in ((op.output, modes.get(op.output, mode)) for op in graph.ops) if how in _HALVES}
    tensors, ops = dict(graph.tensors), list[TpuOp]()
    for op in graph.ops:
        shape = _shape_for(graph, op, chip, cast(Mode, modes.get(op.output, mode)), halves)
        if shape is None:
            ops.append(op)
            continue
        given, result = (f"{op.output}_{part}" for part in ("given", "apart"))
        for name, like in ((given, op.inputs[0]), (result, op.output)):
            tensors[name] = TpuTensor(name, shape, tensors[like].format)
            known_as(name, like, ranges, modes)
        ops += [
            TpuReshape(name=given, inputs=op.inputs, output=given),
            _in_shape(op, given, result),
            TpuReshape(name=f"{op.name}_shape", inputs=(result,), output=op.output),
        ]
    if len(ops) == len(graph.ops):
        return written
    apart = replace(graph, tensors=tensors, ops=tuple(ops))
    return Written(apart, ranges, modes if written.modes is not None else None)


def _in_shape(op: TpuOp, given: str, result: str) -> TpuOp:
    moved = replace(op, inputs=(given,), output=result)
    return replace(moved, axis=op.axis - 1) if isinstance(moved, TpuSoftmax) and isinstance(op, TpuSoftmax) else moved


def _shape_for(graph: TpuGraph, op: TpuOp, chip: str, asked: Mode, halves: Collection[str]) -> Shape | None:
    """The shape that an op is computed in instead; None: its own."""
    shape = graph.tensors[op.output].shape
    if isinstance(op, TpuSoftmax):
        return (shape[0] * shape[1], *shape[2:]) if _is_of_scaled_scores(graph, op, halves) else None
    if not isinstance(op, TpuActivation) or not _is_between_products(graph, op, chip, asked, halves):
        return None
    return (*shape, 1) if len(shape) < _HEADS else (*shape[:-3], shape[-3] * shape[-2], shape[-1])


def _is_between_products(graph: TpuGraph, op: TpuActivation, chip: str, asked: Mode, halves: Collection[str]) -> bool:
    """Whether the compiler would halve the values of an op in float32, and fails there or is slower."""
    before, readers = graph.producer(op.inputs[0]), graph.consumers(op.output)
    if not _has_weights(before, halves) or computed_mode(op, asked, chip, ()) != "F32":
        return False
    shape = graph.tensors[op.output].shape
    if shape[0] != 1 or not any(_has_weights(reader, halves) for reader in readers):
        return False
    if before is None or len(graph.consumers(before.inputs[0])) > 1:
        return False  # what several products read, it leaves as it is
    read_beside = len(readers) > 1 or len(graph.consumers(before.output)) > 1
    if read_beside or {before.output, op.output}.intersection(graph.outputs):
        return True
    return len(shape) < _HEADS and shape[-1] < _FEW_VALUES * chip_named(chip).lanes


def _has_weights(op: TpuOp | None, halves: Collection[str]) -> bool:
    return isinstance(op, TpuMatMul) and op.weight is not None and op.output in halves


def _is_of_scaled_scores(graph: TpuGraph, op: TpuSoftmax, halves: Collection[str]) -> bool:
    """Whether a softmax is that of an attention which the compiler would make one layer of, without right code."""
    shape, scores = graph.tensors[op.output].shape, graph.producer(op.inputs[0])
    if len(shape) != _HEADS or op.axis != _HEADS - 1 or op.log or op.output in graph.outputs:
        return False
    if scores is None:
        return False
    masked = _function(scores) == "add"
    way = [graph.producer(name) for name in scores.inputs] if masked else [scores]
    scaled = next((each for each in way if each is not None and _function(each) == "mul"), None)
    if not isinstance(scaled, TpuBinary) or scaled.constant is None or scaled.constant.size > 1:
        return False
    product, readers = graph.producer(scaled.inputs[0]), graph.consumers(op.output)
    if product is None or len(readers) != 1 or not all(_is_of_computed(each) for each in (product, *readers)):
        return False
    if shape[0] > 1 or _source(graph, product.inputs[1]) != _source(graph, readers[0].inputs[1]):
        return True
    return all(each.output in halves for each in (scores, product, *readers))


def _source(graph: TpuGraph, name: str) -> str:
    """What keys or values are made of by a product with weights, and moved."""
    made = graph.producer(name)
    moved = isinstance(made, TpuPermute | TpuReshape | TpuSlice)
    if made is not None and (moved or (isinstance(made, TpuMatMul) and made.weight is not None)):
        return _source(graph, made.inputs[0])
    return name


def _is_of_computed(op: TpuOp) -> bool:
    return isinstance(op, TpuMatMul) and op.weight is None


def _function(op: TpuOp) -> str:
    return op.function if isinstance(op, TpuBinary) else ""

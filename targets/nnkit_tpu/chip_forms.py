"""What a family of chips computes otherwise than it is written, legalised for it.

Fully connected layers are as `dense.py` says, convolutions of patches as `patches.py`, those that are cut into query,
key and value as `parted_convolutions.py`, what the BM chips need as `joined_groups.py`, `divisors.py`,
`long_steps.py` and `bm_forms.py`. All else concerns the cv18xx; each entry was
found by comparison with the vendor's chip model.

* A depthwise convolution in INT8 ignores its dilation: its kernel gets the zeros that stand between the weights.
* An average pool cannot leave padding out of the count: it becomes pools without padding over the parts of the image
  whose windows are equally large, and the parts are joined.
* Over axes that are not neighbours a reduction becomes several (`reductions.py`).
* A bilinear resize becomes matrix products or a transposed convolution (`enlarging.py`).
* Slopes per channel, and a negative slope, overwrite their input in local memory; a leaky relu in INT8 becomes part
  of the convolution before it, whose own result is then nowhere. Neither regards whether anything else reads that
  value. Where something does, or where it is an output, the op works on a copy: in INT8 a maximum over windows of one
  pixel, otherwise an image padded by nothing.
* In INT8 a limited ReLU that no op takes in is taken for a change of what it reads, in its precision, too; it
  becomes a convolution by 1.
* A transposition that leaves the last axis and that nothing in the network reads is made real numbers before, and
  comes out wrong: it is copied.
* The limit of a ReLU in BF16 is an op of its own where more than one op needs its value (`limits_apart.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from nnkit.calibrate.stats import ValueRange
from nnkit.program import Window
from nnkit_tpu.bm_forms import (
    roots_apart,
    sliced_before_reshapes,
    softmax_before_swaps,
    with_plain_single_heads,
    with_whole_normalisations,
    without_single_rows,
)
from nnkit_tpu.copies import copy_of
from nnkit_tpu.dense import dense_layers
from nnkit_tpu.divisors import guarded_divisors
from nnkit_tpu.edges import edges_as_products
from nnkit_tpu.enlarging import enlarged
from nnkit_tpu.factors_in_weights import as_numbers, factors_in_weights
from nnkit_tpu.group_norms import group_norms
from nnkit_tpu.joined_groups import joined_groups
from nnkit_tpu.later_permutations import later_permutations
from nnkit_tpu.limits_apart import limits_apart
from nnkit_tpu.long_steps import with_short_pool_steps, with_short_steps
from nnkit_tpu.normalised_images import normalised_as_images
from nnkit_tpu.parted_convolutions import parted_convolutions
from nnkit_tpu.parted_products import parted_products, rows_together
from nnkit_tpu.patches import patches_as_rows
from nnkit_tpu.permutations import in_steps
from nnkit_tpu.places import in_place_of, known_as
from nnkit_tpu.pool_parts import pools_of_parts
from nnkit_tpu.program import (
    Mode,
    TpuActivation,
    TpuConv,
    TpuGraph,
    TpuInterp,
    TpuOp,
    TpuPermute,
    TpuPool,
    TpuReduce,
    TpuReshape,
    TpuTensor,
)
from nnkit_tpu.recurrent import TpuRecurrent, tabulated
from nnkit_tpu.reductions import over_neighbours
from nnkit_tpu.shuffled_sums import summed_before_spreading
from nnkit_tpu.steps_first import with_steps_first, with_stored_inputs

_FAMILY = "cv"


def for_chip(graph: TpuGraph, chip: str, mode: Mode) -> TpuGraph:
    """The float graph with ops as `chip` computes them right and soon; mode: of the whole network."""
    graph = parted_convolutions(graph)
    graph = graph if chip.startswith(_FAMILY) else with_short_steps(graph, mode)
    graph = joined_groups(dense_layers(patches_as_rows(graph, chip), chip, mode), chip, mode)
    if not chip.startswith(_FAMILY):
        graph = summed_before_spreading(edges_as_products(graph, mode))
        graph = rows_together(group_norms(graph))
        graph = later_permutations(factors_in_weights(as_numbers(parted_products(graph))))
        graph = guarded_divisors(graph, mode)
        graph = with_plain_single_heads(sliced_before_reshapes(with_whole_normalisations(without_single_rows(graph))))
        return softmax_before_swaps(roots_apart(graph)) if mode == "INT8" else graph
    tensors, ops = dict(graph.tensors), list[TpuOp]()
    made: Sequence[tuple[TpuOp, tuple[int, ...]]]
    for op in graph.ops:
        if (
            isinstance(op, TpuPool)
            and op.function == "average"
            and op.window.has_padding
            and not op.count_include_pad
        ):
            made = pools_of_parts(op, graph.tensors[op.inputs[0]].shape)
        elif isinstance(op, TpuInterp):
            made = enlarged(op, *(graph.tensors[name].shape for name in (op.inputs[0], op.output)))
        elif isinstance(op, TpuReduce):
            made = over_neighbours(op, graph.tensors[op.inputs[0]].shape)
        else:
            made = []
        tensors |= {each.output: TpuTensor(each.output, shape) for each, shape in made}
        ops += [each for each, _ in made] or [_in_place(op, graph.tensors[op.output].shape, mode)]
    guarded = guarded_divisors(replace(graph, tensors=tensors, ops=tuple(ops)), mode, "BF16")
    made_up = with_short_pool_steps(roots_apart(guarded), mode)
    return normalised_as_images(with_stored_inputs(made_up)) if mode == "INT8" else made_up


def _in_place(op: TpuOp, shape: Sequence[int], mode: Mode) -> TpuOp:
    """An op that becomes one other, or stays. shape: of what it gives."""
    if isinstance(op, TpuRecurrent):
        return tabulated(op)
    return _limited_in_integers(_undilated(op), shape) if mode == "INT8" else op


def _limited_in_integers(op: TpuOp, shape: Sequence[int]) -> TpuOp:
    """A limited ReLU of an image as a convolution by 1; any other op as it is."""
    if not isinstance(op, TpuActivation) or op.function != "clip" or "hp" in op.tags or len(shape) != 4:
        return op
    if op.bounds[0] != 0.0 or not np.isfinite(op.bounds[1]):
        return op
    return TpuConv(
        **in_place_of(op),
        weight=np.ones((shape[1], 1, 1, 1), np.float32),
        bias=None,
        group=shape[1],
        window=Window(1, 1),
        relu=True,
        relu_limit=op.bounds[1],
    )


def _undilated(op: TpuOp) -> TpuOp:
    """A dilated depthwise convolution with a dense kernel; any other op as it is."""
    if (
        not isinstance(op, TpuConv)
        or "hp" in op.tags
        or not 1 < op.group == op.weight.shape[0]
        or op.weight.shape[1] > 1
    ):
        return op
    w = op.window
    if (w.dilation_h, w.dilation_w) == (1, 1):
        return op
    height, width = (w.kernel_h - 1) * w.dilation_h + 1, (w.kernel_w - 1) * w.dilation_w + 1
    dense = np.zeros((*op.weight.shape[:2], height, width), np.float32)
    dense[:, :, :: w.dilation_h, :: w.dilation_w] = op.weight
    return replace(op, weight=dense, window=replace(w, kernel_h=height, kernel_w=width, dilation_h=1, dilation_w=1))


@dataclass(frozen=True, eq=False)
class Written:
    """What the compiler is to read: graph, calibrated ranges (INT8), and precisions other than the network's."""

    graph: TpuGraph
    ranges: Mapping[str, ValueRange] | None
    modes: Mapping[str, str] | None


def with_copies(written: Written, chip: str, mode: Mode) -> Written:
    """The same network with copies (cv18xx) before ops that destroy a value which is needed elsewhere, too, and with
    transpositions in steps that it computes correctly."""
    is_cv = chip.startswith(_FAMILY)
    graph, modes = written.graph, dict(written.modes or {})
    ranges = dict(written.ranges) if written.ranges is not None else None
    graph = limits_apart(graph, ranges, modes, mode) if is_cv else graph
    reads = Counter(name for op in graph.ops for name in op.inputs)
    tensors, ops = dict(graph.tensors), list[TpuOp]()
    for op in graph.ops if is_cv else ():
        name = op.inputs[0]
        if _destroys_input(op, graph, modes.get(op.output, mode)) and (reads[name] > 1 or name in graph.outputs):
            how = modes.get(op.output, mode)
            copy = copy_of(graph.tensors[name], f"{name}_for_{op.output}", len(tensors), integer=how == "INT8")
            tensors[copy.output] = replace(graph.tensors[name], name=copy.output)
            if ranges is not None and name in ranges:
                ranges[copy.output] = ranges[name]
            if op.output in modes:
                modes[copy.output] = modes[op.output]
            ops.append(copy)
            op = replace(op, inputs=(copy.output,))
        ops.append(op)
        alone = op.output in graph.outputs and not reads[op.output]
        if alone and isinstance(op, TpuPermute) and _exchanges_blocks(op):
            made = _copied_behind(op, tensors)
            for name in (each.output for each in made[:-1]):
                known_as(name, op.output, ranges, modes)
            ops[-1:] = made
    copied = replace(graph, tensors=tensors, ops=tuple(ops)) if is_cv else graph
    copied = with_steps_first(copied, ranges, modes, mode)
    apart = in_steps(copied, ranges, modes, is_cv=is_cv)
    return Written(apart, ranges, modes if written.modes is not None else None)


def _exchanges_blocks(op: TpuPermute) -> bool:
    """Whether axes before the last one change places, and that stays."""
    return op.order[-1] == len(op.order) - 1 and op.order != tuple(range(len(op.order)))


def _copied_behind(op: TpuPermute, tensors: dict[str, TpuTensor]) -> list[TpuOp]:
    """The transposition and a copy of its result, as an image; what is new is added to the tensors."""
    before, shape = f"{op.output}_exchanged", tensors[op.output].shape
    tensors[before] = replace(tensors[op.output], name=before)
    turned = replace(op, output=before)
    if len(shape) == 4:
        return [turned, replace(copy_of(tensors[before], op.output, 0, integer=True), name=op.name)]
    image, copied = f"{op.output}_image", f"{op.output}_copied"
    for name in (image, copied):
        tensors[name] = TpuTensor(name, (shape[0], prod(shape[1:-2]), *shape[-2:]), tensors[before].format)
    return [
        turned,
        TpuReshape(name=image, inputs=(before,), output=image),
        copy_of(tensors[image], copied, 0, integer=True),
        TpuReshape(name=op.name, inputs=(copied,), output=op.output),
    ]


def _destroys_input(op: TpuOp, graph: TpuGraph, mode: str) -> bool:
    if not isinstance(op, TpuActivation):
        return False
    if op.function == "leaky_relu":
        downwards = op.slopes is not None and bool(op.slopes[0] < 0)
        return mode == "INT8" and (downwards or isinstance(graph.producer(op.inputs[0]), TpuConv))
    return op.function == "prelu"

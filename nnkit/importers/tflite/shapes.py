"""Operators that move values, and those that reduce or weigh along axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnkit.graph.refusal import Refused
from nnkit.importers.tflite.builder import Builder, Order, axis_in, computed, in_order, known, same_either_way
from nnkit.importers.tflite.network import TfliteOperator

REDUCTIONS = {"MEAN": "ReduceMean", "SUM": "ReduceSum", "REDUCE_MAX": "ReduceMax", "REDUCE_MIN": "ReduceMin"}


def reshape(build: Builder, operator: TfliteOperator) -> None:
    """RESHAPE, SQUEEZE, EXPAND_DIMS: the shape that the file says its result has."""
    _reshaped(build, computed(build, operator, 0), operator.outputs[0])


def _reshaped(build: Builder, x: int, result: int) -> None:
    shape = build.tensor(result).shape
    order: Order = "first" if len(shape) == 4 and same_either_way(shape) else "last"
    name = build.tensor(result).name
    after = build.array(f"{name}.shape", np.array(in_order(order, shape), np.int64))
    build.make(result, "Reshape", [build.read_flat(x), after], order)


def transpose(build: Builder, operator: TfliteOperator) -> None:
    """TRANSPOSE."""
    perm = [int(axis) for axis in known(build, operator, 1)]
    build.make(operator.outputs[0], "Transpose", [build.read(computed(build, operator, 0))], perm=perm)


def concatenation(build: Builder, operator: TfliteOperator) -> None:
    """CONCATENATION."""
    result = operator.outputs[0]
    rank = len(build.tensor(result).shape)
    order: Order = "first" if rank == 4 and any(build.order_of(x) == "first" for x in operator.inputs) else "last"
    axis = axis_in(order, operator.option("Axis"), rank)
    parts = [build.read(x, order) for x in operator.inputs]
    build.make(result, "Concat", parts, order, operator.option("FusedActivationFunction"), axis=axis)


def pack(build: Builder, operator: TfliteOperator) -> None:
    """PACK: each value gets the new axis, then they are joined."""
    result = operator.outputs[0]
    shape, name = build.tensor(result).shape, build.tensor(result).name
    axis = operator.option("Axis") % len(shape)
    one = build.array(f"{name}.shape", np.array([*shape[:axis], 1, *shape[axis + 1 :]], np.int64))
    parts = [build.step("Reshape", [build.read(x), one], f"{name}.part") for x in operator.inputs]
    build.make(result, "Concat", parts, axis=axis)


def split(build: Builder, operator: TfliteOperator) -> None:
    """SPLIT and SPLIT_V: parts along an axis, one after the other."""
    x = computed(build, operator, 1 if operator.kind == "SPLIT" else 0)
    axis = int(known(build, operator, 0 if operator.kind == "SPLIT" else 2).reshape(-1)[0])
    rank, start = len(build.tensor(x).shape), 0
    for result in operator.outputs:
        size = build.tensor(result).shape[axis % rank]
        _part(build, x, result, axis % rank, start, size)
        start += size


def unpack(build: Builder, operator: TfliteOperator) -> None:
    """UNPACK: slices along an axis, which goes."""
    x = computed(build, operator, 0)
    rank = len(build.tensor(x).shape)
    axis = operator.option("Axis") % rank
    for index, result in enumerate(operator.outputs):
        name = build.tensor(result).name
        bounds = _bounds(build, name, [index], [index + 1], [axis], [1])
        part = build.step("Slice", [build.read(x), *bounds], f"{name}.slice")
        shape = build.array(f"{name}.shape", np.array(build.tensor(result).shape, np.int64))
        build.make(result, "Reshape", [part, shape])


def _part(build: Builder, x: int, result: int, axis: int, start: int, size: int) -> None:
    order = build.order_of(x)
    at = axis_in(order, axis, len(build.tensor(x).shape))
    bounds = _bounds(build, build.tensor(result).name, [start], [start + size], [at], [1])
    build.make(result, "Slice", [build.read(x, order), *bounds], order)


def slice_(build: Builder, operator: TfliteOperator) -> None:
    """SLICE: begins, and sizes of which -1 is the rest."""
    x, result = computed(build, operator, 0), operator.outputs[0]
    begins, shape = [int(each) for each in known(build, operator, 1)], build.tensor(result).shape
    order = build.order_of(x)
    ends = [begin + size for begin, size in zip(begins, shape, strict=True)]
    axes = list(range(len(shape)))
    bounds = _bounds(
        build, build.tensor(result).name, in_order(order, begins), in_order(order, ends), axes, [1] * len(shape)
    )
    build.make(result, "Slice", [build.read(x, order), *bounds], order)


def strided_slice(build: Builder, operator: TfliteOperator) -> None:
    """STRIDED_SLICE, with axes that it takes away; as numpy understands its bounds."""
    if operator.option("EllipsisMask") or operator.option("NewAxisMask"):
        raise Refused("it has an ellipsis or a new axis")
    x, result = computed(build, operator, 0), operator.outputs[0]
    shape, name = build.tensor(x).shape, build.tensor(result).name
    begins, ends, steps = ([int(each) for each in known(build, operator, position)] for position in (1, 2, 3))
    for axis, size in enumerate(shape[: len(begins)]):
        if steps[axis] < 1:
            raise Refused(f"its step along axis {axis} is {steps[axis]}")
        single = operator.option("ShrinkAxisMask") >> axis & 1
        begin = begins[axis] % size if single else begins[axis]
        begins[axis] = 0 if operator.option("BeginMask") >> axis & 1 else begin
        ends[axis] = begin + 1 if single else size if operator.option("EndMask") >> axis & 1 else ends[axis]
    axes = list(range(len(begins)))
    source = build.read(x)
    bounds = _bounds(build, name, begins, ends, axes, steps)
    if not operator.option("ShrinkAxisMask"):
        build.make(result, "Slice", [source, *bounds])
        return
    part = build.step("Slice", [source, *bounds], f"{name}.slice")
    after = build.array(f"{name}.shape", np.array(build.tensor(result).shape, np.int64))
    build.make(result, "Reshape", [part, after])


def _bounds(
    build: Builder, near: str, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], steps: Sequence[int]
) -> list[str]:
    named = zip(("starts", "ends", "axes", "steps"), (starts, ends, axes, steps), strict=True)
    return [build.array(f"{near}.{what}", np.array(numbers, np.int64)) for what, numbers in named]


def pad(build: Builder, operator: TfliteOperator) -> None:
    """PAD and PADV2 with a constant, MIRROR_PAD by reflection."""
    x, result = computed(build, operator, 0), operator.outputs[0]
    order, name = build.order_of(x), build.tensor(result).name
    pads = known(build, operator, 1)
    if int(pads.min(initial=0)) < 0:  # ONNX would cut off; TFLite refuses it
        raise Refused(f"it pads by {int(pads.min())}", "pad by 0 or more; cut off with a STRIDED_SLICE")
    numbers = [*in_order(order, pads[:, 0].tolist()), *in_order(order, pads[:, 1].tolist())]
    inputs = [build.read(x, order), build.array(f"{name}.pads", np.array(numbers, np.int64))]
    if operator.kind == "MIRROR_PAD":
        if operator.option("Mode"):
            raise Refused("it repeats the border's own elements (SYMMETRIC)", "pad by REFLECT or with a constant")
        build.make(result, "Pad", inputs, order, mode="reflect")
        return
    if operator.kind == "PADV2":
        inputs.append(build.constant(operator.inputs[2], lambda values: values.reshape(())))
    build.make(result, "Pad", inputs, order)


def reduction(build: Builder, operator: TfliteOperator) -> None:
    """MEAN and its like along constant axes."""
    x, result = computed(build, operator, 0), operator.outputs[0]
    rank, name = len(build.tensor(x).shape), build.tensor(result).name
    given = sorted({int(axis) % rank for axis in known(build, operator, 1).reshape(-1)})
    keep = int(bool(operator.option("KeepDims")))
    kept_in_turn = rank != 4 or keep or 3 in given or {1, 2} <= {*given}
    order = build.order_of(x) if kept_in_turn else "last"
    axes = build.array(f"{name}.axes", np.array(sorted(axis_in(order, axis, rank) for axis in given), np.int64))
    build.make(result, REDUCTIONS[operator.kind], [build.read(x, order), axes], order, keepdims=keep)


def softmax(build: Builder, operator: TfliteOperator) -> None:
    """SOFTMAX and LOG_SOFTMAX along the last axis."""
    x, result = computed(build, operator, 0), operator.outputs[0]
    order, rank = build.order_of(x), len(build.tensor(x).shape)
    source, beta = build.read(x, order), float(operator.option("Beta", 1.0))
    if operator.kind == "SOFTMAX" and beta != 1.0:
        factor = build.array(f"{build.tensor(result).name}.beta", np.float32(beta))
        source = build.step("Mul", [source, factor], f"{build.tensor(result).name}.scaled")
    kind = "Softmax" if operator.kind == "SOFTMAX" else "LogSoftmax"
    build.make(result, kind, [source], order, axis=axis_in(order, rank - 1, rank))


def depth_to_space(build: Builder, operator: TfliteOperator) -> None:
    """DEPTH_TO_SPACE and SPACE_TO_DEPTH; the former as ONNX's mode DCR has it."""
    x = computed(build, operator, 0)
    kind = "DepthToSpace" if operator.kind == "DEPTH_TO_SPACE" else "SpaceToDepth"
    build.make(operator.outputs[0], kind, [build.read(x, "first")], "first", blocksize=operator.option("BlockSize"))


def batch_matmul(build: Builder, operator: TfliteOperator) -> None:
    """BATCH_MATMUL, either operand transposed."""
    result, sources = operator.outputs[0], []
    for position, option in ((0, "AdjX"), (1, "AdjY")):
        index = computed(build, operator, position)
        source, rank = build.read(index), len(build.tensor(index).shape)
        if operator.option(option):
            perm = [*range(rank - 2), rank - 1, rank - 2]
            source = build.step("Transpose", [source], f"{build.tensor(result).name}.turned", perm=perm)
        sources.append(source)
    build.make(result, "MatMul", sources)


def gather(build: Builder, operator: TfliteOperator) -> None:
    """GATHER along an axis by constant or computed indices, and EMBEDDING_LOOKUP by computed ones."""
    looked_up = operator.kind == "EMBEDDING_LOOKUP"
    table, indices = (computed(build, operator, position) for position in ((1, 0) if looked_up else (0, 1)))
    if operator.option("BatchDims"):
        raise Refused("it gathers by batch")
    axis = operator.option("Axis") % len(build.tensor(table).shape)
    given = build.tensor(indices)
    if given.values is not None:
        source = build.array(f"{given.name}.indices", given.values.astype(np.int64))
    else:
        source = build.read(indices)
    build.make(operator.outputs[0], "Gather", [build.read(table), source], axis=axis)


def broadcast_to(build: Builder, operator: TfliteOperator) -> None:
    """BROADCAST_TO, and TILE of axes of length 1."""
    x, result = computed(build, operator, 0), operator.outputs[0]
    before, after = build.tensor(x).shape, build.tensor(result).shape
    if operator.kind == "TILE" and any(old not in (1, new) for old, new in zip(before, after, strict=True)):
        raise Refused("it repeats an axis longer than 1")
    shape = build.array(f"{build.tensor(result).name}.shape", np.array(after, np.int64))
    build.make(result, "Expand", [build.read(x), shape])

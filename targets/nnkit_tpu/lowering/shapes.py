"""Ops that move values: concatenation, slices, reshapes, transposition, padding, resizing; reductions and softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from nnkit.program.ops import Window
from nnkit_tpu.lowering.reading import Node, Unsupported, require_image
from nnkit_tpu.program import (
    ReduceFunction,
    TpuConcat,
    TpuDeconv,
    TpuInterp,
    TpuOp,
    TpuPad,
    TpuPermute,
    TpuPool,
    TpuReduce,
    TpuReshape,
    TpuSlice,
    TpuSoftmax,
    TpuUpsample,
)

_REDUCE: dict[str, ReduceFunction] = {
    "ReduceMean": "mean",
    "ReduceSum": "sum",
    "ReduceMax": "max",
    "ReduceMin": "min",
    "ReduceL2": "l2",
}
_PADDING: dict[str, Literal["constant", "reflect", "edge"]] = {
    "constant": "constant",
    "reflect": "reflect",
    "edge": "edge",
}
_COORDINATES: dict[str, Literal["align_corners", "half_pixel", "pytorch_half_pixel", "asymmetric"]] = {
    "align_corners": "align_corners",
    "half_pixel": "half_pixel",
    "pytorch_half_pixel": "pytorch_half_pixel",
    "asymmetric": "asymmetric",
}


def concat(node: Node) -> TpuOp:
    """Concat."""
    inputs = tuple(node.computed(i) for i in range(len(node.node.inputs)))
    return TpuConcat(**node.fields, inputs=inputs, axis=node.axis(node.integer("axis", 0)))


def slice_(node: Node) -> TpuOp:
    """Slice with constant bounds and positive steps."""
    shape = node.shape()
    starts, ends = node.parameter(1, "starts"), node.parameter(2, "ends")
    if starts is None or ends is None:
        raise Unsupported("its bounds are missing")
    axes = node.parameter(3, "axes") or tuple(range(len(starts)))
    steps = node.parameter(4, "steps") or (1,) * len(starts)
    if any(step <= 0 for step in steps):
        raise Unsupported("it runs backwards (a negative step)")
    offset, step, end = [0] * len(shape), [1] * len(shape), list(shape)
    for a, s, e, by in zip(axes, starts, ends, steps, strict=True):
        axis = node.axis(a)
        first, last, by = slice(s, e, by).indices(shape[axis])
        offset[axis], end[axis], step[axis] = first, last, by
    return TpuSlice(
        **node.fields, inputs=(node.computed(),), offsets=tuple(offset), steps=tuple(step), ends=tuple(end)
    )


def split(node: Node) -> TpuOp:
    """One output of a Split."""
    shape = node.shape()
    axis = node.axis(node.integer("axis", 0))
    names = node.node.outputs
    position = names.index(node.output)
    sizes = [node.view.shape(name)[axis] for name in names[: position + 1]]
    begin, end = [0] * len(shape), list(shape)
    begin[axis], end[axis] = sum(sizes[:-1]), sum(sizes)
    return TpuSlice(
        **node.fields, inputs=(node.computed(),), offsets=tuple(begin), steps=(1,) * len(shape), ends=tuple(end)
    )


def reshape(node: Node) -> TpuOp:
    """Reshape, Flatten, Squeeze, Unsqueeze: the shape is that of the output."""
    return TpuReshape(**node.fields, inputs=(node.computed(),))


def transpose(node: Node) -> TpuOp:
    """Transpose."""
    rank = len(node.shape())
    order = node.node.ints("perm", tuple(reversed(range(rank))))
    return TpuPermute(**node.fields, inputs=(node.computed(),), order=order)


def pad(node: Node) -> TpuOp:
    """Pad with constant, reflected or repeated values; cropping is a slice's task."""
    pads = node.parameter(1, "pads")
    if pads is None or any(p < 0 for p in pads):
        raise Unsupported("it needs constant, non-negative pads")
    rank = len(node.shape())
    if node.given(3):
        axes = [node.axis(int(a)) for a in node.required_constant(3, "axes").reshape(-1)]
        full = [0] * (2 * rank)
        for i, axis in enumerate(axes):
            full[axis], full[axis + rank] = pads[i], pads[i + len(axes)]
        pads = tuple(full)
    method = node.node.text("mode", "constant")
    if method not in _PADDING:
        raise Unsupported(f"its mode {method!r} is not supported")
    value = float(node.required_constant(2, "value").reshape(-1)[0]) if node.given(2) else 0.0
    return TpuPad(**node.fields, inputs=(node.computed(),), pads=pads, method=_PADDING[method], value=value)


def resize(node: Node) -> TpuOp:
    """Resize of H and W by whole factors, nearest or linear.

    The compiler writes code for other linear factors, and for nearest ones that differ in height and width, only
    through a compiler of its own kernels at run time, which is not part of the toolchain; and takes the coordinates
    `asymmetric` for `half_pixel`.
    """
    shape, out = node.shape(), node.output_shape
    require_image(shape)
    if shape[:2] != out[:2]:
        raise Unsupported("it changes the batch or the channels")
    method = node.node.text("mode", "nearest")
    coordinates = node.node.text("coordinate_transformation_mode", "half_pixel")
    if node.node.op_type == "Upsample":
        coordinates = "asymmetric"
    factors = [o / i for o, i in zip(out[2:], shape[2:], strict=True)]
    _check_scales(node, factors)
    if method == "nearest":
        if not all(float(f).is_integer() for f in factors):
            raise Unsupported("it is nearest-neighbour by a factor that is not whole")
        if not _repeats_pixels(shape[2:], out[2:], coordinates, node.node.text("nearest_mode", "round_prefer_floor")):
            raise Unsupported(f"with {coordinates} coordinates it does not repeat every pixel equally often")
        height, width = int(factors[0]), int(factors[1])
        if (
            height != width
        ):  # the chip repeats equally often both ways only; ones in a window without overlap repeat too
            ones = np.ones((shape[1], 1, height, width), np.float32)
            window = Window(kernel_h=height, kernel_w=width, stride_h=height, stride_w=width)
            return TpuDeconv(
                **node.fields, inputs=(node.computed(),), weight=ones, bias=None, window=window, group=shape[1]
            )
        return TpuUpsample(**node.fields, inputs=(node.computed(),), scale_h=height, scale_w=width)
    if method != "linear":
        raise Unsupported(f"its mode {method!r} is not supported")
    if coordinates not in _COORDINATES:
        raise Unsupported(f"its coordinates {coordinates!r} are not supported")
    if coordinates == "asymmetric":
        raise Unsupported("the compiler takes linear resizing with asymmetric coordinates for half_pixel")
    if not all(float(f).is_integer() for f in factors):
        raise Unsupported(f"it is linear from {shape[2]} x {shape[3]} to {out[2]} x {out[3]}, not by whole factors")
    return TpuInterp(**node.fields, inputs=(node.computed(),), method="linear", coordinates=_COORDINATES[coordinates])


def _check_scales(node: Node, factors: Sequence[float]) -> None:
    """Given scales that differ from the ratio of sizes would shift the pixels."""
    index = 1 if node.node.op_type == "Upsample" else 2
    scales = node.constant(index)
    if scales is None or scales.size == 0:
        return
    if scales.size != 4 or not np.allclose(scales[2:], factors, rtol=1e-6):
        raise Unsupported(f"its scales {scales.tolist()} are not the ratio of its sizes")


def _repeats_pixels(source: Sequence[int], out: Sequence[int], coordinates: str, rounding: str) -> bool:
    """Whether ONNX's nearest-neighbour formula is index i // factor along both axes."""
    for size, result in zip(source, out, strict=True):
        factor = result // size
        i = np.arange(result, dtype=np.float64)
        if coordinates == "asymmetric":
            x = i / factor
        elif coordinates == "align_corners":
            x = i * (size - 1) / max(1, result - 1)
        elif coordinates == "half_pixel" or (coordinates == "pytorch_half_pixel" and result > 1):
            x = (i + 0.5) / factor - 0.5
        else:
            return False
        rounded = {
            "round_prefer_floor": np.ceil(x - 0.5),
            "round_prefer_ceil": np.floor(x + 0.5),
            "floor": np.floor(x),
            "ceil": np.ceil(x),
        }[rounding]
        if not np.array_equal(np.clip(rounded, 0, size - 1), i // factor):
            return False
    return True


def reduce(node: Node) -> TpuOp:
    """ReduceMean, ReduceSum, ReduceMax, ReduceMin, ReduceL2; over H and W an average pool."""
    rank = len(node.shape())
    given = node.parameter(1, "axes") or tuple(range(rank))
    axes = tuple(sorted(node.axis(a) for a in given))
    keep = bool(node.integer("keepdims", 1))
    function = _REDUCE[node.node.op_type]
    if 0 in axes:
        raise Unsupported("it reduces the batch")
    if function in ("mean", "max") and axes == (2, 3) and rank == 4 and keep:
        window = Window(kernel_h=node.shape()[2], kernel_w=node.shape()[3])
        return TpuPool(
            **node.fields,
            inputs=(node.computed(),),
            function="max" if function == "max" else "average",
            window=window,
        )
    return TpuReduce(**node.fields, inputs=(node.computed(),), function=function, axes=axes, keep_dims=keep)


def softmax(node: Node) -> TpuOp:
    """Softmax and LogSoftmax along one axis."""
    return TpuSoftmax(
        **node.fields,
        inputs=(node.computed(),),
        axis=node.axis(node.integer("axis", -1)),
        log=node.node.op_type == "LogSoftmax",
    )

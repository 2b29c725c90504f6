"""A network of one image, made to take several at a time: every tensor gets as many along its first axis."""

from __future__ import annotations

from dataclasses import replace

from nnkit.errors import ModelError
from nnkit_tpu.program import (
    TpuConcat,
    TpuGraph,
    TpuLayerNorm,
    TpuOp,
    TpuPad,
    TpuPermute,
    TpuReduce,
    TpuSlice,
    TpuSoftmax,
)


def with_batch(graph: TpuGraph, images: int) -> TpuGraph:
    """The graph on `images` images at a time, each computed as it is alone.

    Raises ModelError that names the tensors and layers in which the first axis is not that of images.
    """
    if images == 1:
        return graph
    mixed = [name for name, tensor in graph.tensors.items() if len(tensor.shape) < 2 or tensor.shape[0] != 1]
    mixed += [op.name for op in graph.ops if _mixes_images(op)]
    if mixed:
        raise ModelError(
            f"{len(mixed)} values or layers mix what would be images of a batch: {', '.join(mixed[:8])}",
            remedy="write batch: 1, or take what mixes them out of the network",
        )
    tensors = {name: replace(tensor, shape=(images, *tensor.shape[1:])) for name, tensor in graph.tensors.items()}
    return replace(graph, tensors=tensors, ops=tuple(_on_all(op, images) for op in graph.ops))


def _mixes_images(op: TpuOp) -> bool:
    """Whether the op works along the first axis."""
    match op:
        case TpuConcat() | TpuSoftmax() | TpuLayerNorm():
            return op.axis == 0
        case TpuPermute():
            return op.order[0] != 0
        case TpuReduce():
            return 0 in op.axes
        case TpuPad():
            return op.pads[0] != 0 or op.pads[len(op.pads) // 2] != 0
        case TpuSlice():
            return op.offsets[0] != 0 or op.steps[0] != 1
        case _:
            return False


def _on_all(op: TpuOp, images: int) -> TpuOp:
    return replace(op, ends=(images, *op.ends[1:])) if isinstance(op, TpuSlice) else op

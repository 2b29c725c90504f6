"""Gather with constant indices that step evenly, as exporters write slices, strides and reshapes: a Slice.

What it picks is written as a Slice, and a Reshape where the indices have other than one dimension. A Gather whose
indices run unevenly, or backwards, stays. A GatherND with constant indices is first written as a Gather: the axes
that its indices count become one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.view import Node, ReadableGraph

if TYPE_CHECKING:
    import onnx


class ConstantGraph(ReadableGraph, Protocol):
    """A graph that takes new constants."""

    def add_constant(self, near: str, array: NDArray[np.int64]) -> str:
        """A new initializer named after the value it serves."""

    def free_name(self, near: str) -> str:
        """A value name that is not in use yet."""


def gathers_to_slices(proto: onnx.GraphProto, graph: ConstantGraph) -> None:
    """Rewrite every such layer of `proto`, in place. A result keeps its name, and a layer its own."""
    nodes: list[onnx.NodeProto] = []
    for node in proto.node:
        if node.op_type == "GatherND" and not node.domain:
            nodes += _of_one_axis(node, graph)
        else:
            gathers = node.op_type == "Gather" and not node.domain
            nodes += _slice(node, graph, graph.constant(node.input[1])) if gathers else [node]
    if len(nodes) > len(proto.node):
        del proto.node[:]
        proto.node.extend(nodes)


def _slice(proto: onnx.NodeProto, graph: ConstantGraph, indices: NDArray[Any] | None) -> list[onnx.NodeProto]:
    """The nodes of a Gather: a Slice, or a Slice and a Reshape; itself where that is not what it does."""
    node = Node.of(proto)
    if indices is None or indices.size == 0 or graph.constant(node.input(0)) is not None:
        return [proto]
    shape = graph.shape(node.input(0))
    axis = node.integer("axis", 0) % len(shape)
    picked = np.where(indices < 0, indices + shape[axis], indices).reshape(-1).astype(np.int64)
    steps = np.diff(picked)
    step = int(steps[0]) if steps.size else 1
    if step < 1 or np.any(steps != step):
        return [proto]
    bounds = ([int(picked[0])], [int(picked[-1]) + 1], [axis], [step])
    names = [
        graph.add_constant(f"{node.output}.{what}", np.array(numbers, np.int64))
        for what, numbers in zip(("starts", "ends", "axes", "steps"), bounds, strict=True)
    ]
    proto.op_type = "Slice"
    del proto.attribute[:]
    if indices.ndim == 1:
        proto.input[:] = [node.input(0), *names]
        return [proto]
    part = type(proto)(op_type="Slice", name=f"{node.name}_part", input=[node.input(0), *names])
    part.output.append(graph.free_name(f"{node.output}.part"))
    proto.op_type = "Reshape"
    after = (*shape[:axis], *indices.shape, *shape[axis + 1 :])
    proto.input[:] = [part.output[0], graph.add_constant(f"{node.output}.shape", np.array(after, np.int64))]
    return [part, proto]


def _of_one_axis(proto: onnx.NodeProto, graph: ConstantGraph) -> list[onnx.NodeProto]:
    """The nodes of a GatherND: a Reshape and a Gather, or what `_slice` makes of it; itself where it is another."""
    node = Node.of(proto)
    indices, constant = graph.constant(node.input(1)), graph.constant(node.input(0)) is not None
    if indices is None or indices.size == 0 or constant or node.integer("batch_dims", 0):
        return [proto]
    shape, counted = graph.shape(node.input(0)), indices.shape[-1]
    sizes = np.array(shape[:counted], np.int64)
    places = np.moveaxis(np.where(indices < 0, indices + sizes, indices), -1, 0)
    rows: NDArray[Any] = np.asarray(np.ravel_multi_index(tuple(places), shape[:counted]))
    value = node.input(0)
    flat: list[onnx.NodeProto] = []
    if counted > 1:
        target = graph.add_constant(f"{node.output}.flat", np.array([sizes.prod(), *shape[counted:]], np.int64))
        reshape = type(proto)(op_type="Reshape", name=f"{node.name}_flat", input=[value, target])
        value = graph.free_name(f"{node.output}.flat_value")
        reshape.output.append(value)
        flat.append(reshape)
    proto.op_type = "Gather"
    del proto.attribute[:]
    proto.input[:] = [value, graph.add_constant(f"{node.output}.indices", np.asarray(rows, np.int64))]
    return [*flat, proto] if flat else _slice(proto, graph, rows)

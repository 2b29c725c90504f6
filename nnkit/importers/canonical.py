"""One spelling for what operator sets let one write in several ways, so that later stages meet one form.

Runs after conversion and folding, on a graph with static shapes. Each step keeps the result's name and numbers:

* Cast from float32 to float32 (left by the float type unification) becomes Identity.
* Pad with `axes` gets pads for all axes; Resize with `axes` gets scales or sizes for all axes.
* Gather with constant indices that step evenly becomes the Slice (and Reshape) that it is.
* Flatten -> Softmax -> Reshape, which conversion makes of a Softmax of operator set 12 and before, becomes the
  Softmax over the last axis that it is, where it is one; elsewhere its rows are those of one image, not a batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.read.pad import read_pad
from nnkit.graph.read.resize import read_resize
from nnkit.graph.refusal import Refused
from nnkit.graph.view import Node, Shape
from nnkit.importers.constant_gather import gathers_to_slices
from nnkit.names import NamePool

if TYPE_CHECKING:
    import onnx


def canonicalise(graph: onnx.GraphProto, opset: int, imported: Collection[str]) -> None:
    """Apply all steps to `graph`, whose default operator set is `opset`, in place.

    imported: names of the layers as imported; other nodes are the conversion's own.
    """
    gathers_to_slices(graph, _Graph(graph))
    view = _Graph(graph)
    for node in graph.node:
        if node.op_type == "Cast":
            _cast(node, view)
        elif node.op_type == "Pad" and opset >= 18:
            _pad(node, view)
        elif node.op_type == "Resize" and opset >= 18:
            _resize(node, view)
    _softmax(graph, view, imported)


class _Graph:
    """A graph as the readers of `nnkit.graph.read` ask for it, as it was when this was made; takes new constants."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        values = (*graph.value_info, *graph.input, *graph.output)
        self._proto = graph
        self.types = {value.name: value.type.tensor_type.elem_type for value in values}
        self.types |= {tensor.name: tensor.data_type for tensor in graph.initializer}
        self._shapes = {
            value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim) for value in values
        }
        self._tensors = {tensor.name: tensor for tensor in graph.initializer}
        self.producers = {name: node for node in graph.node for name in node.output if name}
        self.uses = Counter(name for node in graph.node for name in node.input)
        self.uses.update(value.name for value in graph.output)
        self._names = NamePool({*self.types, *self.producers})

    def shape(self, value: str) -> Shape:
        return self._shapes[value]

    def constant(self, value: str) -> NDArray[Any] | None:
        from onnx import numpy_helper

        return numpy_helper.to_array(self._tensors[value]) if value in self._tensors else None

    def producer(self, value: str) -> Node | None:
        return Node.of(self.producers[value]) if value in self.producers else None

    def add_constant(self, near: str, array: NDArray[Any]) -> str:
        """A new initializer named after the value it serves."""
        from onnx import numpy_helper

        name = self.free_name(near)
        self._proto.initializer.append(numpy_helper.from_array(array, name))
        return name

    def free_name(self, near: str) -> str:
        """A value name that is not in use yet."""
        return self._names.free(near)


def _cast(proto: onnx.NodeProto, graph: _Graph) -> None:
    # 1: TensorProto.FLOAT
    if Node.of(proto).integer("to", 0) == 1 and graph.types.get(proto.input[0]) == 1:
        proto.op_type = "Identity"
        del proto.attribute[:]


def _pad(proto: onnx.NodeProto, graph: _Graph) -> None:
    node = Node.of(proto)
    if not node.input(3):
        return
    try:
        pad = read_pad(graph, node)
    except Refused:
        return
    pads = np.array([*pad.before, *pad.after], np.int64)
    proto.input[1] = graph.add_constant(f"{node.output}.pads", pads)
    del proto.input[3:]
    if not node.input(2):
        del proto.input[2:]


def _resize(proto: onnx.NodeProto, graph: _Graph) -> None:
    node = Node.of(proto)
    if "axes" not in node.attributes or node.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        return
    try:
        resize = read_resize(graph, node)
    except Refused:
        return
    roi = [[0.0] * len(resize.before), [1.0] * len(resize.before)]
    given = graph.constant(node.input(1))
    if given is not None and given.size:
        for place, axis in enumerate(node.ints("axes")):
            for bound, numbers in zip(roi, given.reshape(2, -1), strict=True):
                bound[axis] = numbers[place]
    full = {"roi": np.reshape(roi, -1), "scales": np.array(resize.scales), "sizes": np.array(resize.after)}
    for slot, (suffix, array) in enumerate(full.items(), 1):
        given = graph.constant(node.input(slot))
        if given is not None and given.size:
            name = graph.add_constant(f"{node.output}.{suffix}", array.astype(given.dtype))
            proto.input[slot] = name
    proto.attribute.remove(next(attribute for attribute in proto.attribute if attribute.name == "axes"))


def _softmax(proto: onnx.GraphProto, graph: _Graph, imported: Collection[str]) -> None:
    gone: list[onnx.NodeProto] = []
    for reshape in proto.node:
        softmax = graph.producers.get(reshape.input[0]) if reshape.op_type == "Reshape" else None
        if softmax is None or softmax.op_type not in ("Softmax", "LogSoftmax"):
            continue
        flatten = graph.producers.get(softmax.input[0])
        if flatten is None or flatten.op_type != "Flatten" or {flatten.name, reshape.name} & set(imported):
            continue
        source, result = flatten.input[0], reshape.output[0]
        shape = graph.shape(source)
        over_last = Node.of(softmax).integer("axis", -1) in (-1, 1)
        alone = graph.uses[flatten.output[0]] == graph.uses[softmax.output[0]] == 1
        first = Node.of(flatten).integer("axis", 1) % len(shape)
        if not (over_last and alone and shape == graph.shape(result)):
            continue
        if first < len(shape) - 1:
            if first > 1:
                rows = (shape[0], prod(shape[1:first]), prod(shape[first:]))
                flatten.op_type = "Reshape"
                flatten.input.append(graph.add_constant(f"{flatten.output[0]}.rows", np.array(rows, np.int64)))
                del flatten.attribute[:]
                _set_last_axis(softmax)
            continue
        softmax.input[0] = source
        softmax.output[0] = result
        _set_last_axis(softmax)
        gone += [flatten, reshape]
    for node in gone:
        proto.node.remove(node)


def _set_last_axis(softmax: onnx.NodeProto) -> None:
    del softmax.attribute[:]
    softmax.attribute.add(name="axis", type=2, i=-1)  # 2: AttributeProto.INT

"""One spelling for what operator sets let one write in several ways, so that later stages meet one form.

Runs after conversion and folding, on a graph with static shapes. Each step keeps the result's name and numbers:

* Cast from float32 to float32 (left by the float type unification) becomes Identity.
* Pad with `axes` gets pads for all axes; Resize with `axes` gets scales or sizes for all axes.
* Flatten -> Softmax -> Reshape, which conversion makes of a Softmax of operator set 12 and before, becomes the
  Softmax over the last axis that it is, where it is one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import onnx


def canonicalise(graph: onnx.GraphProto, opset: int, imported: Collection[str]) -> None:
    """Apply all steps to `graph`, whose default operator set is `opset`, in place.

    imported: names of the layers as imported; other nodes are the conversion's own.
    """
    view = _View(graph)
    for node in graph.node:
        if node.op_type == "Cast":
            _cast(node, view)
        elif node.op_type == "Pad" and opset >= 18:
            _pad(node, view)
        elif node.op_type == "Resize" and opset >= 18:
            _resize(node, view)
    _softmax(graph, view, imported)


class _View:
    """Lookups on a graph as it was when the view was made."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        values = (*graph.value_info, *graph.input, *graph.output)
        self.graph = graph
        self.types = {value.name: value.type.tensor_type.elem_type for value in values}
        self.shapes = {
            value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim) for value in values
        }
        self.tensors = {tensor.name: tensor for tensor in graph.initializer}
        self.types |= {tensor.name: tensor.data_type for tensor in graph.initializer}
        self.producers = {name: node for node in graph.node for name in node.output if name}
        self.uses = Counter(name for node in graph.node for name in node.input)
        self.uses.update(value.name for value in graph.output)
        self._taken = set(self.types) | set(self.producers)

    def array(self, name: str) -> NDArray[Any] | None:
        """A constant's values; None for what is computed or absent."""
        from onnx import numpy_helper

        return numpy_helper.to_array(self.tensors[name]) if name in self.tensors else None

    def constant(self, near: str, array: NDArray[Any]) -> str:
        """A new initializer named after the value it serves."""
        from onnx import numpy_helper

        name, count = near, 2
        while name in self._taken:
            name, count = f"{near}_{count}", count + 1
        self._taken.add(name)
        self.graph.initializer.append(numpy_helper.from_array(array, name))
        return name


def _attribute(node: onnx.NodeProto, name: str) -> onnx.AttributeProto | None:
    return next((attribute for attribute in node.attribute if attribute.name == name), None)


def _cast(node: onnx.NodeProto, view: _View) -> None:
    target = _attribute(node, "to")
    if target is not None and target.i == 1 and view.types.get(node.input[0]) == 1:  # 1: TensorProto.FLOAT
        node.op_type = "Identity"
        del node.attribute[:]


def _pad(node: onnx.NodeProto, view: _View) -> None:
    if len(node.input) < 4 or not node.input[3]:
        return
    rank = len(view.shapes[node.input[0]])
    pads, axes = view.array(node.input[1]), view.array(node.input[3])
    if pads is None or axes is None:
        return
    full = np.zeros((2, rank), dtype=np.int64)
    full[:, axes.astype(np.int64) % rank] = pads.reshape(2, -1)
    node.input[1] = view.constant(f"{node.output[0]}.pads", full.reshape(-1))
    del node.input[3:]
    if not node.input[2]:
        del node.input[2:]


def _resize(node: onnx.NodeProto, view: _View) -> None:
    axes = _attribute(node, "axes")
    policy = _attribute(node, "keep_aspect_ratio_policy")
    if axes is None or (policy is not None and policy.s != b"stretch"):
        return
    shape = view.shapes[node.input[0]]
    places = [axis % len(shape) for axis in axes.ints]
    full: NDArray[Any]
    for slot, suffix in ((1, "roi"), (2, "scales"), (3, "sizes")):
        array = view.array(node.input[slot]) if slot < len(node.input) and node.input[slot] else None
        if array is None or array.size == 0:
            continue
        if suffix == "roi":
            full = np.repeat(np.array([[0], [1]], dtype=array.dtype), len(shape), axis=1)
            full[:, places] = array.reshape(2, -1)
            full = full.reshape(-1)
        else:
            full = np.asarray(shape if suffix == "sizes" else [1.0] * len(shape), dtype=array.dtype)
            full[places] = array
        node.input[slot] = view.constant(f"{node.output[0]}.{suffix}", full)
    node.attribute.remove(axes)


def _softmax(graph: onnx.GraphProto, view: _View, imported: Collection[str]) -> None:
    gone: list[onnx.NodeProto] = []
    for reshape in graph.node:
        softmax = view.producers.get(reshape.input[0]) if reshape.op_type == "Reshape" else None
        if softmax is None or softmax.op_type not in ("Softmax", "LogSoftmax"):
            continue
        flatten = view.producers.get(softmax.input[0])
        if flatten is None or flatten.op_type != "Flatten" or {flatten.name, reshape.name} & set(imported):
            continue
        source, result = flatten.input[0], reshape.output[0]
        shape = view.shapes[source]
        split, axis = _attribute(flatten, "axis"), _attribute(softmax, "axis")
        over_last = axis is None or axis.i in (-1, 1)
        alone = view.uses[flatten.output[0]] == view.uses[softmax.output[0]] == 1
        last = len(shape) - 1
        if not (over_last and alone and shape == view.shapes[result] and (split.i if split else 1) in (-1, last)):
            continue
        softmax.input[0] = source
        softmax.output[0] = result
        if axis is None:
            axis = softmax.attribute.add(name="axis", type=2)  # 2: AttributeProto.INT
        axis.i = -1
        gone += [flatten, reshape]
    for node in gone:
        graph.node.remove(node)

"""The workbench on which layers become ONNX nodes: names, shapes, constants, and what is wrong with a layer.

Every node carries the name and type of its layer in its metadata. The layer's last node also carries the layer's
parameters as prototxt text, its bottoms and the constants that are its weights, so that an export can write the very
layer again after checking that the nodes still are what that layer means.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from nnkit.caffe.network import MAX_DIMENSIONS, MAX_VALUES, CaffeLayer
from nnkit.graph.metadata import (
    CAFFE_BOTTOMS,
    CAFFE_IN_PLACE,
    CAFFE_LAYER,
    CAFFE_PARAM,
    CAFFE_TYPE,
    CAFFE_WEIGHTS,
)
from nnkit.graph.refusal import Refused
from nnkit.graph.view import Shape
from nnkit.names import NamePool

if TYPE_CHECKING:
    import onnx

    from nnkit.custom_ops import CustomOp

OPSET = 17
IR_VERSION = 8


class GraphBuilder:
    """Collects nodes, constants and the shape of every value."""

    def __init__(self, shapes: dict[str, Shape], reserved: Sequence[str] = ()) -> None:
        self.shapes = shapes
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, NDArray[Any]] = {}
        self._node_names = NamePool()
        self._value_names = NamePool([*shapes, *reserved])

    def free_value(self, wanted: str) -> str:
        """`wanted`, or it with a number, so that no other value has the name."""
        return self._value_names.free(wanted)

    def free_node(self, wanted: str) -> str:
        """The same for nodes."""
        return self._node_names.free(wanted)


class LayerContext:
    """One layer on the workbench. A converter reads `shape(i)`, adds nodes by `part` and ends with `result`."""

    def __init__(self, layer: CaffeLayer, builder: GraphBuilder, declared_batch: int = 1) -> None:
        self.layer = layer
        self.builder = builder
        self.declared_batch = declared_batch
        self.weight_names: list[str | float] = []
        self._first = len(builder.nodes)

    # --- what the layer has

    @property
    def bottoms(self) -> tuple[str, ...]:
        return self.layer.bottoms

    def shape(self, index: int = 0) -> Shape:
        """Shape of a bottom."""
        return self.builder.shapes[self.layer.bottoms[index]]

    def parameter(self, name: str) -> Any:
        """The parameter message of that name; its defaults where the layer has none."""
        return getattr(self.layer.parameters, name)

    def fail(self, reason: str, remedy: str = "") -> NoReturn:
        """Refuse the layer; an import collects the refusals of all layers."""
        raise Refused(reason, remedy)

    def counts(self, bottoms: int | tuple[int, int], tops: int | tuple[int, int] = 1) -> None:
        """Check the number of bottoms and tops; a pair is a range."""
        for what, names, wanted in (("bottom", self.layer.bottoms, bottoms), ("top", self.layer.tops, tops)):
            low, high = (wanted, wanted) if isinstance(wanted, int) else wanted
            if not low <= len(names) <= high:
                number = f"{low}" if low == high else f"{low} to {high}" if high < MAX_VALUES else f"{low} or more"
                self.fail(f"it has {len(names)} {what}s; {number} expected", f"correct the layer's {what}s")

    def image(self, index: int = 0) -> tuple[int, int, int]:
        """Channels, height and width of a bottom that must be a map."""
        shape = self.shape(index)
        if len(shape) != 4:
            self.fail(f"its bottom has shape {list(shape)}, but a map [1, C, H, W] is needed")
        return shape[1], shape[2], shape[3]

    def axis(self, axis: int, rank: int, *, end: bool = False) -> int:
        """A Caffe axis (may be negative) as one from 0."""
        from_front = axis + rank if axis < 0 else axis
        if not 0 <= from_front < rank + end:
            self.fail(f"axis {axis} does not exist in a shape of {rank} dimensions")
        return from_front

    def array(self, index: int, shape: Shape, what: str) -> NDArray[np.float32]:
        """A weight array of the layer in `shape`.

        The stored shape may have ones more or less at the front or end, as old files do: the numbers' order is what
        counts, and the dimensions other than 1 must agree.
        """
        if not self.layer.weights:
            self.fail(
                "the caffemodel has no weights for it", "name the caffemodel that was trained with this prototxt"
            )
        if index >= len(self.layer.weights):
            self.fail(f"the caffemodel has {len(self.layer.weights)} arrays for it; its {what} is missing")
        stored = self.layer.weights[index]
        if [dim for dim in stored.shape if dim != 1] != [dim for dim in shape if dim != 1]:
            self.fail(
                f"its {what} has shape {list(stored.shape)} in the caffemodel, the prototxt asks for {list(shape)}",
                "use prototxt and caffemodel of one training",
            )
        return stored.reshape(shape)

    def weight(self, label: str, array: Any) -> str:
        """A constant made of a weight array, in the order of the arrays; the export writes it back from there."""
        name = self.constant(label, array)
        self.weight_names.append(name)
        return name

    def array_count(self, count: int) -> None:
        """Refuse weights beyond those that the parameters ask for."""
        if len(self.layer.weights) > count:
            self.fail(
                f"the caffemodel has {len(self.layer.weights)} arrays for it, the prototxt asks for {count}",
                "use prototxt and caffemodel of one training",
            )

    # --- what it becomes

    def constant(self, label: str, array: Any) -> str:
        """A constant `<layer>.<label>`."""
        name = self.builder.free_value(f"{self.layer.name}.{label}")
        values = np.asarray(array)
        self.builder.constants[name] = values
        self.builder.shapes[name] = values.shape
        return name

    def integers(self, label: str, values: Sequence[int]) -> str:
        """A constant vector of int64."""
        return self.constant(label, np.array(list(values), dtype=np.int64))

    def scalar(self, label: str, value: float | np.float32) -> str:
        """A float32 constant without dimensions."""
        return self.constant(label, np.array(value, dtype=np.float32))

    def part(self, op: str, inputs: Sequence[str], shape: Shape, label: str, **attributes: Any) -> str:
        """An inner node `<layer>/<label>`; its value, of that name."""
        name = self.builder.free_node(f"{self.layer.name}/{label}")
        value = self.builder.free_value(f"{self.layer.name}/{label}")
        self._add(op, inputs, [value], [shape], name, attributes)
        return value

    def result(self, op: str, inputs: Sequence[str], shape: Shape, **attributes: Any) -> None:
        """The node that computes the layer's only top, and bears the layer's name."""
        self.results(op, inputs, [shape], **attributes)

    def results(self, op: str, inputs: Sequence[str], shapes: Sequence[Shape], **attributes: Any) -> None:
        """The node that computes all of the layer's tops."""
        name = self.builder.free_node(self.layer.name)
        self._add(op, inputs, self.layer.tops, shapes, name, attributes)

    def one_of_results(self, index: int, op: str, inputs: Sequence[str], shape: Shape, **attributes: Any) -> None:
        """A node for one top of several; the last one bears the layer's name."""
        last = index == len(self.layer.tops) - 1
        name = self.builder.free_node(self.layer.name if last else f"{self.layer.name}/{index + 1}")
        self._add(op, inputs, [self.layer.tops[index]], [shape], name, attributes)

    def custom(self, op: CustomOp, inputs: Sequence[str]) -> None:
        """A node of `ai.nnkit` that computes the layer's tops."""
        self._checked([])
        shapes = op.output_shapes([self.builder.shapes[name] for name in inputs])
        node = op.node(inputs, self.layer.tops, self.builder.free_node(self.layer.name))
        self._append(node, self.layer.tops, shapes)

    def copied(self, node: onnx.NodeProto, outputs: Sequence[str], shapes: Sequence[Shape]) -> None:
        """A node of another graph, its values renamed; it gets a name `<layer>/<name>`."""
        node.name = self.builder.free_node(f"{self.layer.name}/{node.name or outputs[0]}")
        self._append(node, outputs, shapes)

    def _add(
        self,
        op: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        shapes: Sequence[Shape],
        name: str,
        attributes: dict[str, Any],
    ) -> None:
        from onnx import helper

        self._checked(shapes)
        self._append(helper.make_node(op, list(inputs), list(outputs), name=name, **attributes), outputs, shapes)

    def _checked(self, shapes: Sequence[Shape]) -> None:
        for shape in shapes:
            if min(shape, default=1) < 1 or len(shape) > MAX_DIMENSIONS or math.prod(shape) > MAX_VALUES:
                self.fail(f"its output would have shape {list(shape)}", "correct the layer's parameters or the input")

    def _append(self, node: onnx.NodeProto, outputs: Sequence[str], shapes: Sequence[Shape]) -> None:
        self._checked(shapes)
        self.builder.nodes.append(node)
        self.builder.shapes.update(zip(outputs, shapes, strict=True))

    def finish(self) -> None:
        """Mark the layer's nodes with where they come from."""
        nodes = self.builder.nodes[self._first :]
        for node in nodes:
            _mark(node, CAFFE_TYPE, self.layer.type)
            _mark(node, CAFFE_LAYER, self.layer.name)
        if self.layer.in_place:
            _mark(nodes[-1], CAFFE_IN_PLACE, "1")
        _mark(nodes[-1], CAFFE_PARAM, parameter_text(self.layer.parameters))
        _mark(nodes[-1], CAFFE_BOTTOMS, json.dumps(list(self.layer.bottoms), ensure_ascii=False))
        if self.weight_names:
            _mark(nodes[-1], CAFFE_WEIGHTS, json.dumps(self.weight_names, ensure_ascii=False))


def parameter_text(parameters: Any) -> str:
    """The parameters of a layer (of no other) on one line, as a prototxt has them; fillers and engines left out."""
    from google.protobuf import text_format  # type: ignore[import-untyped]

    from nnkit.caffe.schema import messages

    kept = messages.LayerParameter()
    for descriptor, value in parameters.ListFields():
        if descriptor.name.endswith("_param") and descriptor.message_type.name != "TrainingOnly":
            getattr(kept, descriptor.name).CopyFrom(value)
            _without_training(getattr(kept, descriptor.name))
    return str(text_format.MessageToString(kept, as_one_line=True)).strip()


def _without_training(message: Any) -> None:
    for descriptor, _ in message.ListFields():
        if descriptor.name == "engine" or (
            descriptor.message_type is not None
            and descriptor.message_type.name in ("FillerParameter", "TrainingOnly")
        ):
            message.ClearField(descriptor.name)


def _mark(node: onnx.NodeProto, key: str, value: str) -> None:
    node.metadata_props.add(key=key, value=value)

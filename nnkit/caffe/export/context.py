"""One node of the graph on its way to Caffe layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from nnkit.caffe.export.writer import NetworkWriter, WrittenLayer
from nnkit.graph.refusal import Refused
from nnkit.graph.view import GraphView, Node, ReadableGraph, Shape

ReadT = TypeVar("ReadT")


class NodeContext:
    """A node, what is known around it, and the layers that it becomes.

    name: the layer's name, without tags. suffix: the tags that all layers of the node get, `_hp`, `_cpu` or nothing.
    """

    def __init__(self, node: Node, view: GraphView, writer: NetworkWriter, name: str, suffix: str) -> None:
        self.node = node
        self.view = view
        self.writer = writer
        self.name = name
        self.suffix = suffix

    # --- what the node has

    def read(self, reader: Callable[[ReadableGraph, Node], ReadT], remedy: str = "") -> ReadT:
        """What a reader of `nnkit.graph.read` makes of the node. remedy: where the reader refuses it."""
        try:
            return reader(self.view, self.node)
        except Refused as refusal:
            raise Refused(refusal.reason, refusal.remedy or remedy) from refusal

    def input(self, index: int) -> str:
        """Name of an input; empty where it is left out."""
        return self.node.input(index)

    def constant(self, index: int) -> NDArray[Any] | None:
        """Values of an input that is constant."""
        name = self.input(index)
        return self.view.constant(name) if name else None

    def number(self, index: int, default: float | None = None) -> float | None:
        """The number in a constant input of one number."""
        return scalar(self.constant(index)) if self.input(index) else default

    def shape(self, index: int = 0) -> Shape:
        """Shape of an input."""
        return self.value_shape(self.input(index))

    def value_shape(self, name: str) -> Shape:
        shape = self.view.shapes.get(name)
        if shape is None:
            self.fail("the shape of a value around it is not known", "import the network again")
        return shape

    @property
    def result_shape(self) -> Shape:
        return self.value_shape(self.node.output)

    def weights(self, index: int, what: str) -> NDArray[np.float32]:
        """A constant input as float32; refused where it is computed."""
        array = self.constant(index)
        if array is None:
            self.fail(f"its {what} is computed by the network", f"Caffe stores the {what} with the layer")
        return np.asarray(array, dtype=np.float32)

    def image(self, index: int = 0) -> tuple[int, int, int]:
        """Channels, height and width of an input that must be a map."""
        shape = self.shape(index)
        if len(shape) != 4:
            self.fail(f"its input has shape {list(shape)}, but Caffe needs [1, C, H, W]")
        return shape[1], shape[2], shape[3]

    def fail(self, reason: str, remedy: str = "") -> NoReturn:
        raise Refused(reason, remedy)

    # --- what it becomes

    def part(
        self,
        kind: str,
        bottoms: Sequence[str],
        label: str,
        weights: Sequence[NDArray[np.float32]] = (),
        /,
        **parameters: dict[str, Any],
    ) -> str:
        """A layer before the last one; returns the value it computes."""
        value = self.writer.value_name(f"{self.name}_{label}")
        self._add(f"{self.name}_{label}", kind, bottoms, [value], weights, parameters)
        return value

    def result(
        self,
        kind: str,
        bottoms: Sequence[str],
        weights: Sequence[NDArray[np.float32]] = (),
        /,
        **parameters: dict[str, Any],
    ) -> None:
        """The layer that computes the node's outputs and bears its name. Parameters: {message field: value}."""
        self._add(self.name, kind, bottoms, list(self.node.results), weights, parameters)

    def layer(self, label: str, kind: str, bottoms: Sequence[str], tops: Sequence[str], **parameters: Any) -> None:
        """A layer with tops of its own choice; an empty label gives it the node's name."""
        self._add(f"{self.name}_{label}" if label else self.name, kind, bottoms, tops, (), parameters)

    def _add(
        self,
        name: str,
        kind: str,
        bottoms: Sequence[str],
        tops: Sequence[str],
        weights: Sequence[NDArray[np.float32]],
        parameters: dict[str, dict[str, Any]],
    ) -> None:
        from nnkit.caffe.schema import messages

        for bottom in bottoms:
            if self.view.constant(bottom) is not None:
                self.fail(f"its input '{bottom}' is a constant", "fold it into a layer's weights")
        message = messages.LayerParameter()
        for field, values in parameters.items():
            parameter = getattr(message, field)
            parameter.SetInParent()
            for key, value in values.items():
                _set(parameter, key, value)
        arrays = tuple(np.ascontiguousarray(array, dtype=np.float32) for array in weights)
        for array in arrays:
            if not np.isfinite(array).all():
                self.fail("its weights hold numbers that are not finite")
        unique = self.writer.layer_name(name, self.suffix)
        self.writer.layers.append(WrittenLayer(unique, kind, list(bottoms), list(tops), message, arrays))


def _set(message: Any, key: str, value: Any) -> None:
    """One field; a dict fills a message, a list a repeated field, and a name stands for an enumeration's value."""
    field = message.DESCRIPTOR.fields_by_name[key]
    if isinstance(value, dict):
        inner = getattr(message, key)
        inner.SetInParent()
        for name, entry in value.items():
            _set(inner, name, entry)
    elif isinstance(value, list | tuple):
        target = getattr(message, key)
        for entry in value:
            if isinstance(entry, dict):
                added = target.add()
                for name, inner_value in entry.items():
                    _set(added, name, inner_value)
            else:
                target.append(entry)
    elif isinstance(value, str) and field.enum_type is not None:
        setattr(message, key, field.enum_type.values_by_name[value].number)
    else:
        setattr(message, key, value)


def scalar(array: NDArray[Any] | None) -> float | None:
    """The number in an array of one; None otherwise."""
    return float(np.asarray(array).reshape(-1)[0]) if array is not None and array.size == 1 else None

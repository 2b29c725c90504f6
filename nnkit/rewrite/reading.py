"""Reading of onnx-ir nodes: the typed readers of `nnkit.graph.read` on the graph that an Editor holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.read.padding import Pads
from nnkit.graph.refusal import Refused
from nnkit.graph.view import Node, ReadableGraph, Shape

if TYPE_CHECKING:
    import onnx_ir as ir

    from nnkit.rewrite.editor import Editor

ReadT = TypeVar("ReadT")


def is_op(node: ir.Node, *op_types: str) -> bool:
    """Whether `node` is one of these ops of the default domain."""
    return node.op_type in op_types and not node.domain


def computes_whole_numbers(node: ir.Node) -> bool:
    """Whether what `node` gives first is integers."""
    dtype = node.outputs[0].dtype
    return dtype is not None and dtype.is_integer()


def operand(node: ir.Node, index: int) -> ir.Value | None:
    """Input `index`, None where it is left out."""
    return node.inputs[index] if index < len(node.inputs) else None


def data_input(node: ir.Node) -> ir.Value:
    """The first input of an op that must have one."""
    value = node.inputs[0]
    if value is None:
        raise ValueError(f"{node.op_type} without its first input")
    return value


def as_node(node: ir.Node) -> Node:
    """`node` as the readers and the view have it; its index says nothing."""
    return Node(
        index=0,
        name=node.name or str(node.outputs[0].name),
        op_type=str(node.op_type),
        domain=node.domain,
        inputs=tuple("" if value is None else str(value.name) for value in node.inputs),
        outputs=tuple(str(value.name or "") for value in node.outputs),
        attributes={name: attribute.value for name, attribute in node.attributes.items()},
        metadata=node.metadata_props,
    )


class _Surroundings:
    """The graph around one node, and before it, as readers ask for it."""

    def __init__(self, editor: Editor, node: ir.Node) -> None:
        self._editor = editor
        self._values = {str(value.name): value for value in (*node.inputs, *node.outputs) if value is not None}

    def shape(self, value: str) -> Shape:
        return self._editor.shape(self._values[value])

    def constant(self, value: str) -> NDArray[Any] | None:
        return self._editor.array(self._values.get(value))

    def producer(self, value: str) -> Node | None:
        node = self._values[value].producer()
        if node is None:
            return None
        self._values.update((str(each.name), each) for each in node.inputs if each is not None)
        return as_node(node)


def read(editor: Editor, node: ir.Node, reader: Callable[[ReadableGraph, Node], ReadT]) -> ReadT:
    """What a reader of `nnkit.graph.read` makes of `node`. Raises Refused where the reader does."""
    return reader(_Surroundings(editor, node), as_node(node))


def read_or_none(editor: Editor, node: ir.Node, reader: Callable[[ReadableGraph, Node], ReadT]) -> ReadT | None:
    """As `read`; None where the reader refuses."""
    try:
        return read(editor, node, reader)
    except Refused:
        return None


def ancestors(value: ir.Value) -> set[ir.Value]:
    """All values that `value` is computed from, itself included."""
    pending, seen = [value], set[Any]()
    while pending:
        each = pending.pop()
        if each in seen:
            continue
        seen.add(each)
        node = each.producer()
        pending += [] if node is None else [before for before in node.inputs if before is not None]
    return seen


def scalar_of(editor: Editor, value: ir.Value | None) -> float | None:
    """The number in a constant whose elements are all equal; None for anything else."""
    array = editor.array(value)
    if array is None or array.size == 0 or not np.all(array == array.flat[0]):
        return None
    return float(array.flat[0])


def set_pads(node: ir.Node, pads: Pads) -> None:
    """Write explicit padding into a Conv or pool."""
    import onnx_ir as ir

    node.attributes.pop("auto_pad", None)
    node.attributes["pads"] = ir.AttrInt64s("pads", list(pads))

"""The layers that an input of a network meets first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

NORMALISES = ("Sub", "Add", "Mul", "Div", "BatchNormalization")
"""Operators that shift or scale pixels, where they are the first of a network."""
_KEEPS_NUMBERS = ("Cast", "Identity", "Transpose")


def readers_by_value(graph: onnx.GraphProto) -> dict[str, list[onnx.NodeProto]]:
    """The nodes that read each value."""
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in dict.fromkeys(node.input):
            readers.setdefault(name, []).append(node)
    return readers


def first_layers(readers: Mapping[str, Sequence[onnx.NodeProto]], name: str) -> Iterator[onnx.NodeProto]:
    """The nodes that read a value, behind those that change its type or order alone. readers: by value."""
    names = [name]
    while names:
        for node in readers.get(names.pop(), ()):
            if node.op_type in _KEEPS_NUMBERS and not node.domain:
                names += node.output
            else:
                yield node

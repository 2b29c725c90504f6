"""Bounds on the windows, layers and names of an ONNX graph (see trust/bounds.py)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from nnkit.importers.tidy import graphs
from nnkit.importers.value_dims import value_dims
from nnkit.trust import WINDOW_READS, WINDOW_VALUES, check_bound, check_layers, check_names

if TYPE_CHECKING:
    import onnx

_SIDES = frozenset(["kernel_shape", "pooled_shape"])
_SIZES = _SIDES | {
    "strides", "dilations", "pads", "output_padding", "blocksize", "size", "sampling_ratio", "output_height",
    "output_width",
}  # fmt: skip
"""Attributes that are numbers of values, by whatever operator they are used."""

_SHOWN = 6
_POOLS = frozenset(["MaxPool", "AveragePool", "LpPool"])


def check_graph(graph: onnx.GraphProto, where: str) -> None:
    """Layers, names and windows of a graph and of the bodies in it. Raises ModelError."""
    every = list(graphs(graph))
    # Each output of a Split becomes a layer of its own.
    check_layers(sum(max(len(node.output), 1) for each in every for node in each.node), where)
    check_names((name for each in every for name in _names(each)), where)
    largest, reason = 0, ""
    for node in (node for each in every for node in each.node):
        for attribute in node.attribute:
            if attribute.name in _SIZES:
                numbers = tuple(attribute.ints) or (attribute.i,)
                size = max(abs(number) for number in numbers)
                if attribute.name in _SIDES:
                    size = max(size, math.prod(map(abs, numbers)))
                if size > largest:
                    largest = size
                    reason = f"{_layer(node)}: its {attribute.name} is {list(numbers[:_SHOWN])}: {size:,}"
    check_bound(reason, largest, WINDOW_VALUES, where)


def check_window_reads(graph: onnx.GraphProto, where: str) -> None:
    """Raises ModelError where the pools of a graph read more than they may; those of unknown size do not count."""
    known = {value.name: value for value in (*graph.value_info, *graph.output)}
    total, largest, layer = 0, 0, ""
    for node in graph.node:
        value = known.get(node.output[0]) if node.op_type in _POOLS else None
        sizes = None if value is None else value_dims(value)
        if sizes is None or min(sizes, default=0) < 0:
            continue
        kernel = next((attribute.ints for attribute in node.attribute if attribute.name == "kernel_shape"), ())
        reads = math.prod(sizes) * math.prod(kernel)
        total += reads
        if reads > largest:
            largest, layer = reads, _layer(node)
    check_bound(
        f"{layer}: the windows of the network's pools, of it most, span {total:,} values", total, WINDOW_READS, where
    )


def _names(graph: onnx.GraphProto) -> Iterator[str]:
    yield graph.name
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        yield value.name
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)


def _layer(node: onnx.NodeProto) -> str:
    return f"layer '{node.name or next(iter(node.output), '')}' ({node.op_type})"

"""Layers that the network was imported with: written again as they were, where they still are what they were.

An imported layer's last node carries type, parameters, bottoms and weights of the layer. That alone proves nothing: a
rewrite may have changed the nodes since. So the layer is imported again from these, and only where that gives the
very nodes and constants which are in the graph is it written as it was.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.caffe.layers.context import GraphBuilder, LayerContext
from nnkit.caffe.network import CaffeLayer
from nnkit.errors import ModelError
from nnkit.graph.metadata import (
    CAFFE_BOTTOMS,
    CAFFE_IN_PLACE,
    CAFFE_LAYER,
    CAFFE_PARAM,
    CAFFE_TYPE,
    CAFFE_WEIGHTS,
)
from nnkit.graph.view import GraphView, Node


@dataclass(frozen=True, eq=False)
class OriginalLayer:
    """A layer found intact. indices: of its nodes in the graph; the last is where it stands."""

    layer: CaffeLayer
    message: Any
    indices: tuple[int, ...]


def original_layers(view: GraphView) -> dict[int, OriginalLayer]:
    """Intact layers by the index of their last node."""
    members: dict[str, list[int]] = defaultdict(list)
    for index, node in enumerate(view.nodes):
        name = node.metadata.get(CAFFE_LAYER)
        if name is not None:
            members[name].append(index)
    originals = {indices[-1]: _original(view, name, indices) for name, indices in members.items()}
    return {index: original for index, original in originals.items() if original is not None}


def _original(view: GraphView, name: str, indices: list[int]) -> OriginalLayer | None:
    from google.protobuf import text_format  # type: ignore[import-untyped]

    from nnkit.caffe.layers.table import LAYERS
    from nnkit.caffe.schema import messages

    nodes = [view.nodes[index] for index in indices]
    last = nodes[-1]
    kind, text = last.metadata.get(CAFFE_TYPE), last.metadata.get(CAFFE_PARAM)
    bottoms, weights = _json_list(last, CAFFE_BOTTOMS), _weights(view, last)
    if kind is None or text is None or bottoms is None or weights is None or kind not in LAYERS:
        return None
    message = messages.LayerParameter()
    try:
        text_format.Parse(text, message)
    except text_format.ParseError:
        return None
    if any(bottom not in view.shapes for bottom in bottoms):
        return None
    visible = _tops(nodes, view)
    tops = tuple(value for node in nodes for value in node.outputs if value in visible)
    in_place = CAFFE_IN_PLACE in last.metadata
    layer = CaffeLayer(name, kind, tuple(bottoms), tops, message, 0, in_place, weights)
    builder = GraphBuilder({bottom: view.shapes[bottom] for bottom in bottoms}, tops)
    try:
        LAYERS[kind](LayerContext(layer, builder))
    except ModelError:
        return None
    return OriginalLayer(layer, message, tuple(indices)) if _same(view, nodes, builder) else None


def _tops(nodes: list[Node], view: GraphView) -> set[str]:
    """Values of the group that something outside it reads, or nothing does, and those of its last node."""
    reads = Counter(name for node in nodes for name in node.inputs)
    tops = set(nodes[-1].outputs)
    for node in nodes[:-1]:
        for name in node.outputs:
            if not reads[name] or view.read_counts[name] > reads[name] or name in view.outputs:
                tops.add(name)
    return tops


def _json_list(node: Node, key: str) -> list[Any] | None:
    text = node.metadata.get(key)
    if text is None:
        return None
    try:
        entries = json.loads(text)
    except ValueError:
        return None
    return entries if isinstance(entries, list) and all(isinstance(e, str | float | int) for e in entries) else None


def _weights(view: GraphView, node: Node) -> tuple[NDArray[np.float32], ...] | None:
    """The layer's weight arrays, from the constants named in its metadata; a number stands for itself."""
    if CAFFE_WEIGHTS not in node.metadata:
        return ()
    arrays = []
    for entry in _json_list(node, CAFFE_WEIGHTS) or [""]:
        array = view.constant(entry) if isinstance(entry, str) else np.array([entry], np.float32)
        if array is None:
            return None
        arrays.append(array)
    return tuple(arrays)


def _same(view: GraphView, nodes: list[Node], builder: GraphBuilder) -> bool:
    """Whether the layer, imported again, gives these nodes: operators, attributes, wiring and constants."""
    if len(builder.nodes) != len(nodes):
        return False
    named: dict[str, str] = {}  # value of the new import -> value in the graph
    for new, old in zip(map(Node.of, builder.nodes), nodes, strict=True):
        if (new.op_type, new.domain) != (old.op_type, old.domain) or new.attributes != old.attributes:
            return False
        if len(new.inputs) != len(old.inputs) or len(new.outputs) != len(old.outputs):
            return False
        for a, b in zip(new.inputs, old.inputs, strict=True):
            if a in builder.constants:
                there = view.constant(b)
                here = builder.constants[a]
                if there is None or there.shape != here.shape or not np.array_equal(there, here):
                    return False
            elif named.get(a, a) != b:
                return False
        named.update(zip(new.outputs, old.outputs, strict=True))
    return all(builder.shapes[a] == view.shapes.get(b) for a, b in named.items())

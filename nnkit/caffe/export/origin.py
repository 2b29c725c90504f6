"""Layers that the network was imported with: written again as they were, where they still are what they were.

An imported layer's last node carries type, parameters, bottoms and weights of the layer. That alone proves nothing: a
rewrite may have changed the nodes since. So the layer is imported again from these, and only where that gives the
very nodes and constants which are in the graph is it written as it was.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nnkit.caffe.export.view import GraphView, attributes, metadata
from nnkit.caffe.layers.context import (
    META_BOTTOMS,
    META_IN_PLACE,
    META_LAYER,
    META_PARAM,
    META_TYPE,
    META_WEIGHTS,
    GraphBuilder,
    LayerContext,
    LayerProblem,
)
from nnkit.caffe.network import CaffeLayer
from nnkit.errors import ModelError

if TYPE_CHECKING:
    import onnx


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
        name = metadata(node, META_LAYER)
        if name is not None:
            members[name].append(index)
    found = {}
    for name, indices in members.items():
        original = _original(view, name, indices)
        if original is not None:
            found[indices[-1]] = original
    return found


def _original(view: GraphView, name: str, indices: list[int]) -> OriginalLayer | None:
    from google.protobuf import text_format  # type: ignore[import-untyped]

    from nnkit.caffe.layers.table import LAYERS
    from nnkit.caffe.schema import messages

    nodes = [view.nodes[index] for index in indices]
    last = nodes[-1]
    kind, text = metadata(last, META_TYPE), metadata(last, META_PARAM)
    bottoms, weights = _json_list(last, META_BOTTOMS), _weights(view, last)
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
    tops = tuple(value for node in nodes for value in node.output if value in visible)
    in_place = metadata(last, META_IN_PLACE) is not None
    layer = CaffeLayer(name, kind, tuple(bottoms), tops, message, 0, in_place, weights)
    builder = GraphBuilder({bottom: view.shapes[bottom] for bottom in bottoms}, tops)
    try:
        LAYERS[kind](LayerContext(layer, builder))
    except (LayerProblem, ModelError):
        return None
    return OriginalLayer(layer, message, tuple(indices)) if _same(view, nodes, builder) else None


def _tops(nodes: list[onnx.NodeProto], view: GraphView) -> set[str]:
    """Values of the group that something outside it reads, or nothing does, and those of its last node."""
    reads = Counter(name for node in nodes for name in node.input)
    tops = set(nodes[-1].output)
    for node in nodes[:-1]:
        for name in node.output:
            if not reads[name] or view.readers[name] > reads[name] or name in view.outputs:
                tops.add(name)
    return tops


def _json_list(node: onnx.NodeProto, key: str) -> list[Any] | None:
    text = metadata(node, key)
    if text is None:
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, list) and all(isinstance(entry, str | float | int) for entry in found) else None


def _weights(view: GraphView, node: onnx.NodeProto) -> tuple[NDArray[np.float32], ...] | None:
    """The layer's weight arrays, from the constants named in its metadata; a number stands for itself."""
    if metadata(node, META_WEIGHTS) is None:
        return ()
    arrays = []
    for entry in _json_list(node, META_WEIGHTS) or [""]:
        array = view.constant(entry) if isinstance(entry, str) else np.array([entry], np.float32)
        if array is None:
            return None
        arrays.append(array)
    return tuple(arrays)


def _same(view: GraphView, nodes: list[onnx.NodeProto], builder: GraphBuilder) -> bool:
    """Whether the layer, imported again, gives these nodes: operators, attributes, wiring and constants."""
    if len(builder.nodes) != len(nodes):
        return False
    named: dict[str, str] = {}  # value of the new import -> value in the graph
    for new, old in zip(builder.nodes, nodes, strict=True):
        if (new.op_type, new.domain) != (old.op_type, old.domain) or attributes(new) != attributes(old):
            return False
        if len(new.input) != len(old.input) or len(new.output) != len(old.output):
            return False
        for a, b in zip(new.input, old.input, strict=True):
            if a in builder.constants:
                there = view.constant(b)
                here = builder.constants[a]
                if there is None or there.shape != here.shape or not np.array_equal(there, here):
                    return False
            elif named.get(a, a) != b:
                return False
        named.update(zip(new.output, old.output, strict=True))
    return all(builder.shapes[a] == view.shapes.get(b) for a, b in named.items())

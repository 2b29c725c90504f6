"""A model's own functions: how many layers it has once they are inlined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from nnkit.importers.tidy import graphs
from nnkit.trust import MOST_LAYERS_COUNTED, check_layers

if TYPE_CHECKING:
    import onnx

Key = tuple[str, str]
"""Domain and name of a function."""


def check_size_inlined(proto: onnx.ModelProto, where: str) -> None:
    """A few functions that call each other twice stand for billions of layers.

    Raises:
        ModelError: the network has more layers than one may have when its functions are inlined.
    """
    counts = _counts(proto)
    own = _calls(proto.graph.node)
    total = sum(number * counts.get(key, 1) for key, number in own.items())
    check_layers(total, where, functions=len(proto.functions))


def _counts(proto: onnx.ModelProto) -> dict[Key, int]:
    """Nodes of each function, inlined; what calls itself counts as nothing, and is refused where it is inlined."""
    calls = {(function.domain, function.name): _calls(function.node) for function in proto.functions}
    counts: dict[Key, int] = {}
    entered: set[Key] = set()
    for first in calls:
        pending = [first]
        while pending:
            key = pending[-1]
            entered.add(key)
            below = [each for each in calls[key] if each in calls and each not in entered]
            if below:
                pending += below
                continue
            pending.pop()
            if key not in counts:
                total = sum(number * counts.get(each, each not in calls) for each, number in calls[key].items())
                counts[key] = min(total, MOST_LAYERS_COUNTED)
    return counts


def _calls(nodes: Iterable[onnx.NodeProto]) -> Counter[Key]:
    """How often each operator stands in these nodes and the bodies in them."""
    return Counter((node.domain, node.op_type) for node in _with_bodies(nodes))


def _with_bodies(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for body in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from (inner for graph in graphs(body) for inner in graph.node)

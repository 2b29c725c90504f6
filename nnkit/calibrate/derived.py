"""Values whose numbers follow from those of another value: they are neither fetched nor counted.

`same`: ops that only move numbers (a transposition has the histogram of what it transposes). `rectified`: Relus,
whose numbers are those of their input, with zeros for the negative ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

_STANDARD = ("", "ai.onnx")
_MOVES = frozenset(
    {"DepthToSpace", "Flatten", "Identity", "Reshape", "SpaceToDepth", "Squeeze", "Transpose", "Unsqueeze"}
)
_DERIVES = _MOVES | {"Relu"}


@dataclass(frozen=True)
class Derived:
    """By name of a value that is not fetched, the one that it follows from. Sources of `rectified` are fetched ones,
    those of `same` are fetched or rectified ones.
    """

    same: Mapping[str, str]
    rectified: Mapping[str, str]

    def __contains__(self, name: object) -> bool:
        return name in self.same or name in self.rectified

    def root(self, name: str) -> str:
        """The value that is fetched for this one."""
        source = self.same.get(name, name)
        return self.rectified.get(source, source)


def derived_values(graph: onnx.GraphProto, names: Iterable[str]) -> Derived:
    """Those among the values of these names. The graph's nodes are in an order in which they can run."""
    known = set(names)
    same: dict[str, str] = {}
    rectified: dict[str, str] = {}
    behind: dict[str, str] = {}  # by name of what is rectified, the first Relu's output
    for node in graph.node:
        if (
            node.op_type not in _DERIVES
            or node.domain not in _STANDARD
            or not {*node.input[:1], *node.output[:1]} <= known
        ):
            continue
        source = same.get(node.input[0], node.input[0])
        if node.op_type in _MOVES or (node.op_type == "Relu" and source in rectified):
            same[node.output[0]] = source
        elif node.op_type == "Relu" and source in behind:
            same[node.output[0]] = behind[source]
        elif node.op_type == "Relu":
            rectified[node.output[0]] = source
            behind[source] = node.output[0]
    return Derived(MappingProxyType(same), MappingProxyType(rectified))

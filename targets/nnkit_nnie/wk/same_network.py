"""Whether a compiled network is a build's: the inputs and outputs of its segments, by name and size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nnkit.errors import UserFileError
from nnkit_nnie.layers import REPORT_SUFFIX
from nnkit_nnie.wk.nodes import Sort, WkNode, cut_name

_SHOWN = 3


def same_network(
    nodes: Sequence[WkNode], segments: Mapping[str, Any], build: Mapping[str, Any], path: Path
) -> tuple[Mapping[str, Any], list[str]]:
    """The network of `build.json` that the nodes are of, and notes.

    A value may stand in the file under its own name, its blob's, or that of a layer that was written for it.
    segments, build: the data of `segments.json` and `build.json`. Raises UserFileError, naming what differs, where
    it is of none.
    """
    reasons = []
    for network in build["networks"]:
        expected = _expected(segments, str(network["name"]))
        reason, notes = _compared(nodes, expected)
        if reason is None:
            return network, notes
        reasons.append(reason)
    raise UserFileError(
        f"this is another network's: {'; or '.join(reasons)}",
        where=str(path),
        remedy="name the build that it was compiled from, or a .wk of this network and input size",
    )


def _expected(segments: Mapping[str, Any], network: str) -> list[tuple[WkNode, frozenset[str]]]:
    """Nodes of the NNIE's segments of a network, each with the names under which it may stand."""
    nodes = []
    for segment in segments["segments"]:
        if segment["runs_on"] != "nnie" or segment.get("network", "") != network:
            continue
        written = {layer["name"]: layer["written_as"] for layer in segment["layers"]}
        sorts: tuple[tuple[Sort, str], ...] = (("input", "inputs"), ("output", "outputs"))
        for sort, key in sorts:
            for tensor in segment[key]:
                names = {tensor["name"], tensor["blob"], *written.get(tensor["name"], ())}
                names |= {name.removesuffix(REPORT_SUFFIX) for name in names}
                node = WkNode(sort, cut_name(tensor["name"]), _hwc(tensor["shape"]))
                nodes.append((node, frozenset(cut_name(name) for name in names)))
    return nodes


def _hwc(shape: Sequence[int]) -> tuple[int, int, int]:
    """Height, width and channels of a tensor [C, H, W]; of a vector, its length as channels."""
    channels, height, width = (*shape, 1, 1, 1)[:3]
    return height, width, channels


def _compared(
    nodes: Sequence[WkNode], expected: Sequence[tuple[WkNode, frozenset[str]]]
) -> tuple[str | None, list[str]]:
    """Why the nodes are another network's, or None; and a note where their order is another."""
    left = list(nodes)
    absent, order = [], []
    for node, names in expected:
        match = next((n for n in left if (n.sort, n.hwc) == (node.sort, node.hwc) and n.name in names), None)
        if match is None:
            absent.append(node)
            continue
        left.remove(match)
        order.append(nodes.index(match))
    if absent or left:
        return f"it has {_shown(left)}, and this build {_shown(absent)}", []
    repeated = any(count > 1 for count in Counter(nodes).values())
    if repeated or order == sorted(order):
        return None, []
    return None, [f"the file has its inputs and outputs in another order: {', '.join(n.name for n in nodes)}"]


def _shown(nodes: Sequence[WkNode]) -> str:
    if not nodes:
        return "no other"
    more = f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else ""
    return ", ".join(f"the {node.sort} {node}" for node in nodes[:_SHOWN]) + more

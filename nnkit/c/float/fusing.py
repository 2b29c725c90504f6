"""Activations that the kernel before them computes: Relu and Clip behind a product with constant weights."""

from __future__ import annotations

from collections.abc import Mapping

from nnkit.c.float import conv, gemm
from nnkit.c.float.calls import Struct, struct
from nnkit.graph.read.clip import read_clip
from nnkit.graph.refusal import Refused
from nnkit.graph.view import GraphView, Node

_TAKE_CLIP = {"Conv": conv.takes_clip, "Gemm": gemm.takes_clip}


def fused_activations(graph: GraphView) -> Mapping[str, Node]:
    """The activation that a node's kernel takes in, by the node's output, which nobody else may read."""
    fused = {}
    for node in graph.nodes:
        if node.domain or node.op_type not in ("Relu", "Clip") or graph.read_counts[node.inputs[0]] != 1:
            continue
        before = graph.producer(node.inputs[0])
        if before is None or before.domain or node.inputs[0] in graph.outputs:
            continue
        takes = _TAKE_CLIP.get(before.op_type)
        try:
            if takes is not None and takes(graph, before):
                read_clip(graph, node)
                fused[before.output] = node
        except Refused:
            continue  # told where the C is made
    return fused


def clip_struct(graph: GraphView, activation: Node) -> Struct:
    """`nnkit_clip` of a Relu or a Clip."""
    bounds = read_clip(graph, activation)
    return struct("nnkit_clip", *(_bound(value) for value in (bounds.low, bounds.high)))


def _bound(value: float) -> float | str:
    if abs(value) != float("inf"):
        return value
    return "nnkit_infinity" if value > 0 else "-nnkit_infinity"

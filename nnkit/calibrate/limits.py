"""How far the values of a network can go at all, whatever the input."""

from __future__ import annotations

import math
from collections.abc import Mapping

from nnkit.calibrate.stats import Limits
from nnkit.graph import Model
from nnkit.graph.read.clip import read_clip
from nnkit.graph.refusal import Refused
from nnkit.graph.view import GraphView, Node
from nnkit.input_range import InputRange

_NO_LIMITS = Limits(-math.inf, math.inf)
_BOUNDED: Mapping[str, Limits] = {
    **dict.fromkeys(("Sigmoid", "HardSigmoid", "Softmax"), Limits(0.0, 1.0)),
    **dict.fromkeys(("Tanh", "Erf", "Softsign", "Sin", "Cos"), Limits(-1.0, 1.0)),
    "Relu": Limits(0.0, math.inf),
    "Abs": Limits(0.0, math.inf),
    "Exp": Limits(0.0, math.inf),
    "Sqrt": Limits(0.0, math.inf),
    "Softplus": Limits(0.0, math.inf),
}
_SELECTS = frozenset(
    {"DepthToSpace", "Flatten", "Gather", "Identity", "MaxPool", "Relu", "Reshape", "Slice", "SpaceToDepth", "Split"}
    | {"Squeeze", "Transpose", "Unsqueeze", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "ReduceMax"}
    | {"ReduceMean", "ReduceMin"}
)
"""Ops whose results lie within the limits of what they read."""


def limits_of(model: Model, inputs: Mapping[str, InputRange]) -> dict[str, Limits]:
    """What each value can hold at most. inputs: by name, of those inputs of which that is known."""
    graph = GraphView.of(model)
    known = {name: Limits(each.low, each.high) for name, each in inputs.items()}
    limits = {spec.name: known.get(spec.name, _NO_LIMITS) for spec in model.inputs}
    for node in graph.nodes:
        limits |= dict.fromkeys(node.results, _given(graph, node, limits))
    return limits


def _given(graph: GraphView, node: Node, limits: Mapping[str, Limits]) -> Limits:
    """What a node's results can hold."""
    source = limits.get(node.inputs[0], _NO_LIMITS) if node.inputs and node.op_type in _SELECTS else _NO_LIMITS
    own = _BOUNDED.get(node.op_type, _NO_LIMITS) if not node.domain else _NO_LIMITS
    if node.op_type == "Clip":
        try:
            clip = read_clip(graph, node)
            own = Limits(clip.low, clip.high)
        except Refused:  # a bound that is computed
            pass
    return Limits(max(source.low, own.low), min(source.high, own.high))

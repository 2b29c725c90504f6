"""Activations with parameters: LeakyRelu and PRelu as slopes, and the defaults of the others."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.read.operands import per_channel, required_constant
from nnkit.graph.refusal import Refused
from nnkit.graph.view import Node, ReadableGraph

ACTIVATION_PARAMETERS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "LeakyRelu": {"alpha": 0.01},
        "Elu": {"alpha": 1.0},
        "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
    }
)
"""ONNX's parameters of activations, with their defaults."""


def activation_parameters(node: Node) -> tuple[float, ...]:
    """The parameters of an activation in the order of `ACTIVATION_PARAMETERS`; empty where it has none."""
    defaults = ACTIVATION_PARAMETERS.get(node.op_type, {})
    return tuple(node.number(name, default) for name, default in defaults.items())


def read_slopes(graph: ReadableGraph, node: Node) -> NDArray[Any]:
    """[1] or [C]: what a LeakyRelu or PRelu multiplies negative values by.

    Raises Refused where the slopes are computed, or differ within a channel.
    """
    if node.op_type == "LeakyRelu":
        return np.array(activation_parameters(node), np.float32)
    slopes = required_constant(graph, node, 1, "slopes are")
    if slopes.size == 1:
        return slopes.reshape(1)
    shape = graph.shape(node.inputs[0])
    channels = per_channel(slopes, shape)
    if channels is None:
        raise Refused(
            f"its {slopes.size} slopes are not one per channel ({shape[1] if len(shape) > 1 else 1}), nor one for all"
        )
    return channels

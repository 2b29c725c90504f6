"""Functions of one value: activations, roots and the like. Clip with constant bounds is one of them."""

from __future__ import annotations

from math import prod

import numpy as np

from nnkit.c.float.calls import Call, Code, Write
from nnkit.c.float.operands import read
from nnkit.graph.read.activation import activation_parameters
from nnkit.graph.read.clip import read_clip
from nnkit.graph.view import GraphView, Node

_FLOAT_MAX = float(np.finfo(np.float32).max)
_ENUMERATORS = {
    "Relu": "NNKIT_RELU",
    "LeakyRelu": "NNKIT_LEAKY_RELU",
    "Sigmoid": "NNKIT_SIGMOID",
    "HardSigmoid": "NNKIT_HARD_SIGMOID",
    "HardSwish": "NNKIT_HARD_SWISH",
    "Tanh": "NNKIT_TANH",
    "Elu": "NNKIT_ELU",
    "Softplus": "NNKIT_SOFTPLUS",
    "Exp": "NNKIT_EXP",
    "Log": "NNKIT_LOG",
    "Sqrt": "NNKIT_SQRT",
    "Abs": "NNKIT_ABS",
    "Neg": "NNKIT_NEG",
    "Reciprocal": "NNKIT_RECIPROCAL",
    "Floor": "NNKIT_FLOOR",
    "Ceil": "NNKIT_CEIL",
    "Softsign": "NNKIT_SOFTSIGN",
    "Mish": "NNKIT_MISH",
    "Sign": "NNKIT_SIGN",
}


def unary(graph: GraphView, node: Node) -> Code:
    return [_call(graph, node, _ENUMERATORS[node.op_type], *activation_parameters(node))]


def clip(graph: GraphView, node: Node) -> Code:
    bounds = read_clip(graph, node)
    return [_call(graph, node, "NNKIT_CLIP", max(bounds.low, -_FLOAT_MAX), min(bounds.high, _FLOAT_MAX))]


def _call(graph: GraphView, node: Node, function: str, p: float = 0.0, q: float = 0.0) -> Call:
    count = prod(graph.shape(node.output))
    arguments = (function, read(graph, node.inputs[0]), Write(node.output), count, p, q)
    return Call("unary", "nnkit_unary", arguments, in_place=(1,))


LOWERINGS = dict.fromkeys(_ENUMERATORS, unary) | {"Clip": clip}

"""Gelu, exact or by the hyperbolic tangent, and the error function."""

from __future__ import annotations

from math import prod

from nnkit.c.float.calls import Call, Code, Write
from nnkit.c.float.operands import read
from nnkit.graph.view import GraphView, Node


def gelu(graph: GraphView, node: Node) -> Code:
    function = "nnkit_erf" if node.is_op("Erf") else "nnkit_gelu"
    if node.text("approximate", "none") == "tanh":
        function = "nnkit_gelu_tanh"
    arguments = (read(graph, node.inputs[0]), Write(node.output), prod(graph.shape(node.output)))
    return [Call("gelu", function, arguments, in_place=(0,))]


LOWERINGS = {"Gelu": gelu, "Erf": gelu}

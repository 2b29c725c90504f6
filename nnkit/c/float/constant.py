"""Constant nodes whose value is an output of the network; all others are constants of the graph."""

from __future__ import annotations

import numpy as np

from nnkit.c.float.calls import Code, Known
from nnkit.graph.refusal import Refused
from nnkit.graph.view import GraphView, Node


def constant(graph: GraphView, node: Node) -> Code:
    from onnx import numpy_helper

    if "value" not in node.attributes:
        raise Refused("its value is no tensor")
    return Known(np.ascontiguousarray(numpy_helper.to_array(node.attributes["value"]), np.float32))


LOWERINGS = {"Constant": constant}

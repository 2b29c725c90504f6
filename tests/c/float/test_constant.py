"""A Constant node that is an output of the network."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import helper, numpy_helper
from segment_networks import normal

Check = Callable[..., None]
node = helper.make_node


def test_a_constant_output_is_written(agrees: Check) -> None:
    value = numpy_helper.from_array(np.array([[1.5, -2.0, 3.25]], np.float32))
    nodes = [node("Constant", [], ["c"], value=value), node("Relu", ["x"], ["y"])]
    agrees(nodes, {"x": normal(1, 4)}, outputs=["c", "y"], rtol=0, atol=0)

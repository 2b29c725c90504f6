"""one_dimension_to_two: layers over one dimension, as layers over two of height 1."""

from __future__ import annotations

import pytest

RULE = "one_dimension_to_two"


@pytest.mark.parametrize(
    ("op", "weight", "attributes"),
    [
        ("Conv", (6, 2, 3), {"strides": [2], "pads": [1, 2], "dilations": [2], "group": 2}),
        ("ConvTranspose", (4, 3, 3), {"strides": [2], "pads": [1, 0], "output_padding": [1]}),
        ("MaxPool", None, {"kernel_shape": [3], "strides": [2], "pads": [1, 0], "ceil_mode": 1}),
        ("AveragePool", None, {"kernel_shape": [3], "pads": [1, 1], "count_include_pad": 1}),
        ("GlobalAveragePool", None, {}),
    ],
)
def test_one_dimension(graphs, op, weight, attributes):
    net = graphs.Net(x=(1, 4, 13))
    constants = [] if weight is None else [net.normal(*weight)]
    after, _ = graphs.apply(net.model(net.op(op, "x", *constants, name="layer", **attributes), hp=["layer"]), RULE)
    assert graphs.ops(after) == ["Reshape", op, "Reshape"]
    flat = graphs.node(after, op)
    assert flat.name == "layer"
    assert after.tags.of(flat.output[0]).hp


def test_padding_to_the_same_size_declines(graphs):
    net = graphs.Net(x=(1, 4, 13))
    model = net.model(net.op("MaxPool", "x", kernel_shape=[3], auto_pad="SAME_UPPER"))
    _, log = graphs.apply(model, RULE)
    assert "SAME_UPPER" in log.of(RULE).declined[0].reason


@pytest.mark.parametrize(
    ("given", "attributes"),
    [
        ("scales", {"mode": "linear"}),
        ("scales", {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
        ("sizes", {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
        ("axes", {"mode": "linear", "axes": [2]}),
    ],
)
def test_resize(graphs, given, attributes):
    net = graphs.Net(opset=19, x=(1, 4, 13))
    after_data = {
        "scales": lambda: ["", net.const((1, 1, 2))],
        "sizes": lambda: ["", "", net.ints(1, 4, 21)],
        "axes": lambda: ["", net.const((1.5,))],
    }[given]()
    after, _ = graphs.apply(net.model(net.op("Resize", "x", *after_data, name="layer", **attributes)), RULE)
    assert graphs.ops(after) == ["Reshape", "Resize", "Reshape"]
    assert graphs.node(after, "Resize").name == "layer"

"""normalize_resize: nearest-neighbour upsampling by whole factors in one form."""

from __future__ import annotations

import numpy as np
import pytest

RULE = "normalize_resize"
MODES = ["asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners"]
ROUNDINGS = ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("factors", [(2, 2), (3, 1), (4, 5)])
def test_resize_fires_exactly_when_it_repeats_elements(graphs, mode, rounding, factors):
    """Truth: ONNX Runtime's own output against numpy's repeat."""
    net = graphs.Net(x=(1, 2, 5, 4))
    value = net.op(
        "Resize",
        "x",
        "",
        net.const([1, 1, *factors]),
        mode="nearest",
        coordinate_transformation_mode=mode,
        nearest_mode=rounding,
    )
    model = net.model(value)
    after, log = graphs.apply(model, RULE)
    x = np.arange(40, dtype=np.float32).reshape(1, 2, 5, 4)
    repeats = np.array_equal(graphs.run(model, {"x": x})[0], x.repeat(factors[0], 2).repeat(factors[1], 3))
    normal = (mode, rounding) == ("asymmetric", "floor")
    assert bool(log.of(RULE).fired) == (repeats and not normal)
    assert bool(log.of(RULE).declined) == (not repeats)
    resize = graphs.node(after, "Resize")
    if repeats:
        assert graphs.attribute(resize, "nearest_mode") == b"floor"
        assert graphs.constant(after, resize.input[2]).tolist() == [1, 1, *factors]


def test_resize_by_sizes_and_axes(graphs):
    net = graphs.Net(opset=18, x=(1, 2, 5, 4))
    by_size = net.op("Resize", "x", "", "", net.ints(1, 2, 10, 12), mode="nearest", name="r")
    by_axes = net.op("Resize", "x", "", net.const([3, 2]), mode="nearest", axes=[3, 2])
    after, log = graphs.apply(net.model(by_size, by_axes, hp=["r"], cpu=["r"]), RULE)
    assert len(log.of(RULE).fired) == 2
    assert [graphs.constant(after, graphs.node(after, "Resize", i).input[2]).tolist() for i in (0, 1)] == [
        [1, 1, 2, 3],
        [1, 1, 2, 3],
    ]
    assert after.tags.of("r_v").hp
    assert after.tags.of("r_v").cpu


@pytest.mark.parametrize(
    ("scales", "attributes", "text"),
    [
        ([1, 1, 1.5, 2], {"mode": "nearest"}, "not a whole factor"),
        ([1, 1, 0.5, 0.5], {"mode": "nearest"}, "not a whole factor"),
        ([1, 1, 2, 2], {"mode": "linear"}, "its mode is linear"),
        ([1, 1, 2, 2], {"mode": "cubic"}, "its mode is cubic"),
        ([1, 2, 2, 2], {"mode": "nearest"}, "other axes than H and W"),
    ],
)
def test_resize_declines(graphs, scales, attributes, text):
    net = graphs.Net(x=(1, 2, 5, 4))
    value = net.op("Resize", "x", "", net.const(scales), coordinate_transformation_mode="asymmetric", **attributes)
    _, log = graphs.apply(net.model(value), RULE)
    assert text in log.of(RULE).declined[0].reason

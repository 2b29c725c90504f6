"""resize_to_layers: an interpolating Resize as means of repeated elements, or as matrices along the axes."""

from __future__ import annotations

import pytest

RULE = "resize_to_layers"


def _resize(net, scales, mode, coordinates):
    return net.op(
        "Resize", "x", "", net.const(scales), name="r", mode=mode, coordinate_transformation_mode=coordinates
    )


@pytest.mark.parametrize("factors", [(2, 2), (3, 3), (4, 2), (3, 4), (1, 2), (8, 8)])
def test_whole_factors_are_means(graphs, factors):
    net = graphs.Net(x=(1, 3, 5, 4))
    after, _ = graphs.apply(net.model(_resize(net, (1, 1, *factors), "linear", "half_pixel"), hp=["r"]), RULE)
    odd = factors[0] % 2 and factors[1] % 2
    assert graphs.ops(after) == ["Resize", "AveragePool"] + ["AveragePool"] * (not odd)
    assert after.tags.of("r_v").hp


@pytest.mark.parametrize(
    ("scales", "mode", "coordinates"),
    [
        ((1, 1, 2, 2), "linear", "align_corners"),
        ((1, 1, 2, 2), "linear", "asymmetric"),
        ((1, 1, 1.6, 2), "linear", "half_pixel"),
        ((1, 1, 0.6, 0.5), "linear", "half_pixel"),
        ((1, 1, 1.6, 0.5), "nearest", "half_pixel"),
    ],
)
def test_others_are_matrices(graphs, scales, mode, coordinates):
    net = graphs.Net(x=(1, 3, 5, 6))
    after, _ = graphs.apply(net.model(_resize(net, scales, mode, coordinates)), RULE)
    assert graphs.ops(after) == ["Transpose", "Conv", "Transpose"] * 2


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("inside_alone", [0, 1])
@pytest.mark.parametrize("antialias", [0, 1])
@pytest.mark.parametrize("scales", [(1, 1, 2, 3), (1, 1, 1.6, 2.5), (1, 1, 0.4, 0.5), (1, 1, 0.4, 2)])
def test_filters_are_matrices(graphs, scales, antialias, inside_alone, mode):
    net = graphs.Net(opset=19, x=(1, 3, 10, 8))
    settings = {"mode": mode, "exclude_outside": inside_alone if mode == "cubic" else 0, "cubic_coeff_a": -0.5}
    resize = net.op("Resize", "x", "", net.const(scales), antialias=antialias, **settings)
    after, log = graphs.apply(net.model(resize), RULE)
    assert len(log.of(RULE).fired) == 1
    assert "Conv" in graphs.ops(after) or scales == (1, 1, 2, 3)


@pytest.mark.parametrize("coordinates", ["align_corners", "asymmetric", "pytorch_half_pixel"])
def test_cubic_in_other_coordinates(graphs, coordinates):
    net = graphs.Net(x=(1, 3, 5, 6))
    after, _ = graphs.apply(net.model(_resize(net, (1, 1, 2, 1.5), "cubic", coordinates)), RULE)
    assert graphs.ops(after) == ["Transpose", "Conv", "Transpose"] * 2


def test_even_repeats_stay_and_a_kept_aspect_ratio_declines(graphs):
    net = graphs.Net(opset=19, x=(1, 3, 5, 6))
    sizes = net.ints(10, 9)
    policy = {"axes": [2, 3], "keep_aspect_ratio_policy": "not_larger"}
    outputs = [
        _resize(net, (1, 1, 2, 2), "nearest", "asymmetric"),
        net.op("Resize", "x", "", "", sizes, name="c", mode="linear", **policy),
    ]
    after, log = graphs.apply(net.model(*outputs), RULE)
    assert graphs.ops(after) == ["Resize", "Resize"]
    assert "aspect" in log.of(RULE).declined[0].reason

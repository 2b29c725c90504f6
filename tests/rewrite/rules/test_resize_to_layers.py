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


def test_even_repeats_stay_and_cubic_declines(graphs):
    net = graphs.Net(x=(1, 3, 5, 6))
    outputs = [
        _resize(net, (1, 1, 2, 2), "nearest", "asymmetric"),
        net.op("Resize", "x", "", net.const((1, 1, 2, 2)), name="c", mode="cubic"),
    ]
    after, log = graphs.apply(net.model(*outputs), RULE)
    assert graphs.ops(after) == ["Resize", "Resize"]
    assert "cubic" in log.of(RULE).declined[0].reason

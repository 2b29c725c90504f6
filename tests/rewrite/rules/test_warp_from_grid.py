"""warp_from_grid: a warp instead of the sampling grid gives what ONNX Runtime's GridSample gives."""

from __future__ import annotations

import numpy as np
import pytest

from nnkit.graph.onnx_runtime import FloatSession
from nnkit.rewrite import restructure
from nnkit.rewrite.rules.warp_from_grid import RULE


def theta_of(net, image, size):
    """A computed matrix near the identity."""
    flat = net.op("Flatten", net.op("AveragePool", image, kernel_shape=[size, size], strides=[size, size]))
    elements = 3 * (20 // size) * (16 // size)
    scaled = net.op("Mul", net.op("Tanh", flat), net.const(0.2))
    near = net.op("Gemm", scaled, net.normal(elements, 6, scale=0.3), net.const([1, 0, 0.1, 0, 1, -0.1]), name="loc")
    return net.op("Reshape", near, net.ints(1, 2, 3), name="theta")


def constant_grid(height, width, aligned):
    def axis(size):
        steps = np.arange(size)
        return 2 * steps / (size - 1) - 1 if aligned else (2 * steps + 1) / size - 1

    y, x = np.meshgrid(axis(height), axis(width), indexing="ij")
    return np.stack([x, y, np.ones_like(x)], axis=-1)


def network(graphs, form="affine_grid", aligned=(True, True), padding="zeros", mode="linear", out=(12, 10)):
    net = graphs.Net(image=(1, 3, 20, 16), opset=20)
    theta = theta_of(net, "image", 4)
    if form == "affine_grid":
        grid = net.op("AffineGrid", theta, net.ints(1, 3, *out), name="grid", align_corners=int(aligned[0]))
    else:
        points = constant_grid(*out, aligned[0]).reshape(1, -1, 3)
        product = net.op("MatMul", net.const(points), net.op("Transpose", theta, perm=[0, 2, 1]), name="product")
        grid = net.op("Reshape", product, net.ints(1, *out, 2), name="grid")
    sampled = net.op(
        "GridSample", "image", grid, name="sample", mode=mode, padding_mode=padding, align_corners=int(aligned[1])
    )
    return net, sampled


@pytest.mark.parametrize("form", ["affine_grid", "constant_grid"])
@pytest.mark.parametrize("aligned", [(True, True), (False, False), (True, False), (False, True)])
@pytest.mark.parametrize("padding", ["zeros", "border"])
def test_the_warp_samples_the_same(graphs, form, aligned, padding):
    net, sampled = network(graphs, form, aligned, padding)
    model = net.model(net.op("Relu", net.conv(sampled, (4, 3, 3, 3)), name="last"), hp=["loc"])
    after, log = restructure(model, [RULE])
    assert len(log.of("warp_from_grid").fired) == 1
    assert "GridSample" not in graphs.ops(after)
    assert "AffineGrid" not in graphs.ops(after)
    rng = np.random.default_rng(1)
    for _ in range(3):
        image = {"image": rng.normal(0, 1, (1, 3, 20, 16)).astype(np.float32)}
        wanted, found = (FloatSession(m, ["sample_v"]).run(image)["sample_v"] for m in (model, after))
        assert np.ptp(wanted) > 1
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4)
    assert next(node for node in after.proto().graph.node if node.op_type == "WarpPerspective").name == "sample"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"mode": "nearest"}, "mode nearest"),
        ({"padding": "reflection"}, "pads with reflection"),
        ({"form": "other"}, "not the grid of the output's pixels"),
    ],
)
def test_declines(graphs, changes, reason, monkeypatch):
    if changes.get("form") == "other":
        regular = constant_grid
        monkeypatch.setitem(globals(), "constant_grid", lambda *given: regular(*given) ** 3)
    net, sampled = network(graphs, **changes)
    same, log = restructure(net.model(sampled), [RULE])
    (declined,) = log.of("warp_from_grid").declined
    assert reason in declined.reason
    assert "GridSample" in graphs.ops(same)

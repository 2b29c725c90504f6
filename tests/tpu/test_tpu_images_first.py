"""The first axis of every value is that of images: what else stands there moves one axis on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tpu_build import built, refuted
from tpu_net import Net

from nnkit.errors import ModelError
from nnkit_tpu.lowering import lower
from nnkit_tpu.program import TpuBinary, TpuConcat, TpuPermute, TpuReduce, TpuSlice, TpuSoftmax
from nnkit_tpu.toolchain import Toolchain


def test_ops_work_one_axis_further_on() -> None:
    net = Net()
    steps = net("Transpose", "rows", perm=[1, 0, 2], to="steps")  # [6, 1, 20]
    cut = net("Slice", steps, net.ints(1), net.ints(4), net.ints(0), to="cut")
    soft = net("Softmax", cut, axis=0, to="soft")
    both = net("Concat", soft, cut, axis=2, to="both")
    total = net("ReduceSum", both, net.ints(2), to="total")
    net("Transpose", total, perm=[1, 0, 2], to="back")
    graph = lower(net.model(["back"]), "net")
    assert all(tensor.shape[0] == 1 for tensor in graph.tensors.values())
    by_output = {op.output: op for op in graph.ops}
    turned, sliced, softmax, joined, reduced = (by_output[n] for n in ("steps", "cut", "soft", "both", "total"))
    assert isinstance(turned, TpuPermute)
    assert turned.order == (0, 2, 1, 3)
    assert isinstance(sliced, TpuSlice)
    assert (sliced.offsets, sliced.ends) == ((0, 1, 0, 0), (1, 4, 1, 20))
    assert isinstance(softmax, TpuSoftmax)
    assert softmax.axis == 1
    assert isinstance(joined, TpuConcat)
    assert joined.axis == 3
    assert isinstance(reduced, TpuReduce)
    assert reduced.axes == (3,)
    assert graph.tensors["back"].shape == (1, 3, 1)


def test_constants_by_channel_are_added_along_the_same_axis() -> None:
    net = Net()
    heads = net("Reshape", "x", net.ints(4, 2, 12, 10))
    constant = net.normal(2, 1, 1)
    net("Reshape", net("Add", heads, constant), net.ints(1, 8, 12, 10), to="out")
    added = next(op for op in lower(net.model(["out"]), "net").ops if isinstance(op, TpuBinary))
    assert added.constant is not None
    x = np.random.default_rng(1).normal(0, 1, (4, 2, 12, 10))
    by_hand = x + added.constant.reshape(2)[None, :, None, None]
    np.testing.assert_array_equal((x[None] + added.constant)[0], by_hand)


def test_equal_factors_of_heads_are_one_number() -> None:
    """The compiler makes one number of them, whose product has the input's scale times that number."""
    net = Net()
    heads = net("Reshape", "x", net.ints(4, 2, 12, 10))
    scaled = net("Mul", heads, net.constant(np.full((2, 1, 1), 10.0, np.float32)))
    net("Reshape", scaled, net.ints(1, 8, 12, 10), to="out")
    product = next(op for op in lower(net.model(["out"]), "net").ops if isinstance(op, TpuBinary))
    assert product.constant is not None
    assert product.constant.tolist() == [10.0]


def _images(net: Net, to: str = "windows") -> str:
    return net("Reshape", "x", net.ints(4, 8, 6, 5), to=to)


def _convolved(net: Net) -> str:
    return net("Conv", _images(net), net.normal(8, 8, 3, 3), net.normal(8), pads=[1, 1, 1, 1], to="conv")


def _depthwise(net: Net) -> str:
    """As on the heads of an attention that pools its queries."""
    conv = net("Conv", _images(net), net.normal(8, 1, 3, 3), pads=[1, 1, 1, 1], group=8, to="conv")
    return net("Relu", conv)


def _pooled(net: Net) -> str:
    first = net("MaxPool", _images(net), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    return net("AveragePool", first, kernel_shape=[1, 1], to="mean")


@pytest.mark.parametrize("chip", ["bm1684x", "cv181x"])
@pytest.mark.parametrize("build", [_convolved, _depthwise, _pooled])
def test_convolutions_and_pools_of_several_images(
    tpu_toolchain: Toolchain, tmp_path: Path, chip: str, build: Callable[[Net], str]
) -> None:
    net = Net()
    model = net.model([net("Reshape", build(net), net.ints(1, 8, 12, 10), to="out")])
    report = built(model, f"chip: {chip}", tmp_path)
    assert refuted(report) == []
    assert report["status"] == "ok"
    assert report["verify"]["float_vs_program"]["cosine"] > 0.999


def test_a_convolution_of_so_many_images_that_weights_become_too_many_is_refused() -> None:
    net = Net()
    points = net("Transpose", net("Reshape", "x", net.ints(8, 120, 1, 1)), perm=[1, 0, 2, 3])
    conv = net("Conv", points, net.normal(8 * 1100, 8, 1, 1), to="conv")
    model = net.model([net("Reshape", net("ReduceSum", conv, net.ints(1)), net.ints(1, 1, 12, 10), to="out")])
    with pytest.raises(ModelError, match=r"conv \(conv\): its first axis has 120 entries, not one image"):
        lower(model, "net")


def test_an_output_of_several_is_refused() -> None:
    net = Net()
    model = net.model([net("Transpose", "rows", perm=[1, 0, 2], to="steps")])
    with pytest.raises(ModelError, match="of which there is one") as caught:
        lower(model, "net")
    assert "steps [6, 1, 20]" in str(caught.value)

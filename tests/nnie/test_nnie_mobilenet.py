"""A network of inverted residuals with ReLU6 is one segment of the NNIE, and its pair computes what ORT computes."""

from __future__ import annotations

import numpy as np
import pytest
from nnie_networks import Net, in_opencv

from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.rewrite import available_rules, restructure
from nnkit_nnie.limits.context import Division
from nnkit_nnie.mapper.caffe_pair import caffe_pair
from nnkit_nnie.network import Network
from nnkit_nnie.options import NnieOptions
from nnkit_nnie.segments import divide
from nnkit_nnie.target import NnieTarget

CHIPS = ("hi3559av100", "hi3516cv500")


def batch_norm(net: Net, x: str, channels: int, name: str) -> str:
    """With variances so small that many activations lie beyond 6."""
    given = [
        net.constant(f"{name}.{part}", net.random.uniform(*span, channels))
        for part, span in (("scale", (2.0, 4.0)), ("shift", (-1.0, 2.0)), ("mean", (-0.2, 0.2)), ("var", (0.2, 1.0)))
    ]
    return net.node("BatchNormalization", [x, *given], name)


def inverted_residual(net: Net, x: str, channels: tuple[int, int], stride: int, name: str) -> str:
    inside = channels[0] * 4
    y = batch_norm(net, net.conv(x, (channels[0], inside), f"{name}_expand", 1), inside, f"{name}_bn1")
    y = net.clip(y, f"{name}_relu6a")
    y = net.conv(y, (inside, inside), f"{name}_dw", group=inside, strides=[stride, stride])
    y = net.clip(batch_norm(net, y, inside, f"{name}_bn2"), f"{name}_relu6b")
    y = batch_norm(net, net.conv(y, (inside, channels[1]), f"{name}_project", 1), channels[1], f"{name}_bn3")
    return net.node("Add", [x, y], f"{name}_sum") if stride == 1 and channels[0] == channels[1] else y


def mobilenet() -> Model:
    net = Net(7)
    x = net.conv(net.input("image", 3, 33, 33), (3, 8), "stem", strides=[2, 2])
    x = net.clip(batch_norm(net, x, 8, "stem_bn"), "stem_relu6")
    x = inverted_residual(net, x, (8, 8), 1, "block1")
    x = inverted_residual(net, x, (8, 16), 2, "block2")
    x = inverted_residual(net, x, (16, 16), 1, "block3")
    x = net.clip(net.conv(x, (16, 32), "last", 1), "last_relu6")
    x = net.node("Flatten", [net.node("GlobalAveragePool", [x], "pool")], "flat")
    return net.model(net.fc(x, (32, 10), "fc"))


def deployed(model: Model, chip: str) -> Network:
    """Divided after the target's own rewrites."""
    rules = available_rules()
    target = NnieTarget()
    names = [*target.default_rules, *target.legalisation(NnieOptions.model_validate({"chip": chip}))]
    after, _ = restructure(model, [rules[name] for name in names])
    return divide(after, Division(chip, compile_mode=0))


@pytest.mark.parametrize("chip", CHIPS)
def test_it_is_one_segment_of_layers_that_the_mapper_knows(chip: str):
    network = deployed(mobilenet(), chip)
    assert [segment.placement for segment in network.segments] == ["npu"]
    assert not any(layer.custom for layer in network.layers)
    assert {layer.kind for layer in network.layers} == {
        "Convolution",
        "DepthwiseConv",
        "Power",
        "Eltwise",
        "Pooling",
        "InnerProduct",
    }  # fmt: skip (every ReLU runs in place)


def test_opencv_computes_its_pair_as_onnx_runtime_the_original():
    model = mobilenet()
    pair = caffe_pair(deployed(model, CHIPS[0]))
    read = in_opencv(pair)
    sample = np.random.default_rng(0).normal(0.0, 2.0, model.inputs[0].shape).astype(np.float32)
    name = model.outputs[0].name
    clipped = FloatSession(model, fetch=["stem_bn", name]).run({"image": sample})
    assert 0.1 < np.mean(clipped["stem_bn"] > 6.0) < 0.9  # the clamp has work to do
    read.setInput(sample)
    got = read.forward(pair.blobs[name])
    np.testing.assert_allclose(got.ravel(), clipped[name].ravel(), rtol=1e-4, atol=1e-4 * np.abs(clipped[name]).max())

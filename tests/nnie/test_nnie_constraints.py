"""Every limit: a network just within is taken, one beyond is refused with a message of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from nnie_networks import OWN, Net
from nnie_small_layers import CV500, Build, network, refusal, upsampled

from nnkit.caffe.schema import messages
from nnkit.constraints import constraint_remedy, constraint_text
from nnkit.errors import ModelError
from nnkit.graph import Model
from nnkit.importers import import_caffe
from nnkit_nnie.chips import CHIPS, NnieLimits
from nnkit_nnie.limits.constraints import LAYER_LIMITS
from nnkit_nnie.limits.context import Division
from nnkit_nnie.limits.page import limits_page
from nnkit_nnie.limits.segment_limits import NETWORK_LIMITS, SEGMENT_LIMITS
from nnkit_nnie.limits.tag_rules import TAG_RULES
from nnkit_nnie.segments import divide


def permute(*order: int) -> Build:
    return lambda net, x: net.node("Transpose", [x], "perm", perm=list(order))


def pooled(kernel: int, stride: int, ceil: int = 0) -> Build:
    return lambda net, x: net.node(
        "MaxPool", [x], "pool", kernel_shape=[kernel, kernel], strides=[stride, stride], ceil_mode=ceil
    )


def concat(count: int) -> Build:
    return lambda net, x: net.node("Concat", [x] * count, "cat", axis=1)


def power(exponent: float) -> Build:
    return lambda net, x: net.node("Pow", [x, net.constant("e", exponent)], "power")


def resized(side: int) -> Build:
    return lambda net, x: net.node(
        "Resize",
        [x, "", "", net.constant("s", [1, 8, side, side], np.int64)],
        "interp",
        mode="linear",
        coordinate_transformation_mode="align_corners",
    )


def normalized(eps: float) -> Build:
    def build(net: Net, x: str) -> str:
        scale = net.constant("norm.scale", np.ones(8))
        return net.node("Normalize", [x, scale], "norm", domain=OWN, across_spatial=0, channel_shared=0, eps=eps)

    return build


def passed(block: int) -> Build:
    return lambda net, x: net.node(
        "PassThrough", [x], "pass", domain=OWN, num_output=8 * block * block, block_height=block, block_width=block
    )


def reshaped(*shape: int) -> Build:
    return lambda net, x: net.reshape(x, shape, "reshape")


def read_after_reshape(*shape: int) -> Build:
    """What gives the network's result its shape runs on the CPU by itself; this does not."""
    return lambda net, x: net.node("Abs", [net.reshape(x, shape, "reshape")], "abs")


def convolved(out: int = 8, kernel: int = 3, group: int = 1, **attributes: object) -> Build:
    return lambda net, x: net.conv(x, (8, out), "conv", kernel=kernel, group=group, **attributes)


def padded(*pads: int) -> Build:
    def build(net: Net, x: str) -> str:
        weight = net.weights("w", 4, 8, 3, 3)
        return net.node("Conv", [x, weight], "conv", kernel_shape=[3, 3], pads=list(pads))

    return build


def broadcast(net: Net, x: str) -> str:
    return net.node("Mul", [x, net.node("GlobalAveragePool", [x], "gap")], "mul")


def added(net: Net, x: str) -> str:
    return net.node("Add", [x, net.conv(x, (8, 8), "other")], "sum")


def fully_connected(follower: Callable[[Net, str], str], out: int = 16) -> Build:
    def build(net: Net, x: str) -> str:
        return follower(net, net.fc(net.node("Flatten", [x], "flat"), (2048, out), "fc"))

    return build


def tiled(net: Net, x: str) -> str:
    return net.node("Tile", [x, net.constant("r", [1, 2, 1, 1], np.int64)], "tile")


def expanded_constant(net: Net, x: str) -> str:
    large = net.node("Expand", [net.constant("one", [1.5]), net.constant("s", [1, 8, 16, 16], np.int64)], "tile")
    return net.node("Add", [x, large], "sum")


def with_computed(*computed: str) -> Build:
    """A convolution whose weights or bias are an input of the network."""

    def build(net: Net, x: str) -> str:
        weight = net.input("given", 4, 8, 3, 3) if "weight" in computed else net.weights("w", 4, 8, 3, 3)
        bias = net.input("offset", 4) if "bias" in computed else net.weights("b", 4)
        return net.node("Conv", [x, weight, bias], "conv", kernel_shape=[3, 3])

    return build


LIMITS = [
    (
        permute(0, 2, 3, 1),
        permute(0, 3, 1, 2),
        "Permute can only support (0,1,2,3) -> (0,2,3,1) order",
        "perm",
        "(0,3,1,2)",
    ),
    (pooled(2, 2), pooled(3, 2), "rounded up (ceil mode)", "pool", "an output of 7 x 7, where that would be 8 x 8"),
    (
        pooled(3, 2, ceil=1),
        pooled(3, 2),
        "rounded up (ceil mode)",
        "pool",
        "an output of 7 x 7, where that would be 8 x 8",
    ),
    (concat(32), concat(33), "at most 32 inputs", "cat", "33"),
    (power(-0.5), power(0.7), "-3, -2, -1, -1/2, 1/2, 1, 2, 3", "power", "0.7"),
    (power(3.0), power(4.0), "exponent of a Power", "power", "4"),
    (upsampled(2), upsampled(3), "Upsample doubles", "up", "1 x 8 x 16 x 16 to 1 x 8 x 48 x 48"),
    (resized(32), resized(24), "whole factors only", "interp", "1 x 8 x 16 x 16 to 1 x 8 x 24 x 24"),
    (normalized(1e-10), normalized(1e-6), "an eps of 1e-10", "norm", "1e-06"),
    (passed(4), None, "", "", ""),
    (
        upsampled(2),
        upsampled(2, nearest_mode="ceil"),
        "nearest neighbour only",
        "up",
        "the coordinates of asymmetric, rounded by ceil",
    ),
    (reshaped(1, 8, 1, 256), read_after_reshape(1, 8, 256), "four dimensions", "reshape", "1 x 8 x 256"),
    (reshaped(1, 8, 1, 256), reshaped(2, 8, 8, 16), "batch dimension", "reshape", "batches of 1 and 2"),
    (
        convolved(out=4096, kernel=1),
        convolved(out=4097, kernel=1),
        "at most 4,096",
        "conv",
        "1 x 4,097 x 16 x 16",
    ),
    (convolved(dilations=[1, 1]), convolved(kernel=1, strides=[256, 256]), "1 to 255", "conv", "stride 256 x 256"),
    (padded(1, 1, 1, 1), padded(0, 0, 1, 1), "the same on both ends", "conv", "0 above, 1 below, 0 left, 1 right"),
    (with_computed(), with_computed("bias"), "biases are constants", "conv", "that its bias is not constant"),
    (with_computed(), with_computed("weight"), "weights and biases", "conv", "that its weights are not constant"),
    (
        pooled(2, 2),
        lambda net, x: net.node("GlobalMaxPool", [net.reshape(x, (1, 8, 256), "row")], "pool"),
        "convolutions and poolings have two dimensions",
        "pool",
        "an input of 1 x 8 x 256",
    ),
    (added, broadcast, "there is no broadcast", "mul", "1 x 8 x 16 x 16 and 1 x 8 x 1 x 1"),
    (fully_connected(lambda net, x: net.node("Softmax", [x], "end", axis=1)), None, "", "", ""),
    (
        fully_connected(lambda net, x: net.fc(net.node("Relu", [x], "relu"), (16, 4), "fc2")),
        fully_connected(lambda net, x: net.node("ReduceMean", [x], "end", axes=[1], keepdims=1)),
        "after InnerProduct only softmax-like layers",
        "end",
        "Reduction behind fc (InnerProduct)",
    ),
    (
        fully_connected(lambda net, x: x, out=4096),
        fully_connected(lambda net, x: x, out=4097),
        "at most 4,096",
        "fc",
        "1 x 4,097",
    ),
    (
        lambda net, x: net.node("Concat", [x, x], "cat", axis=1),
        lambda net, x: net.node("Softmax", [x], "soft", axis=0),
        "along a dimension other than the batch",
        "soft",
        "axis 0",
    ),
    (
        convolved(out=4096, kernel=1),
        lambda net, x: net.node(
            "Softmax", [net.tag(net.conv(x, (8, 4097), "c_cpu", kernel=1), cpu=True)], "s", axis=1
        ),
        "4,096",
        "s",
        "1 x 4,097 x 16 x 16 in c_cpu",
    ),
    (padded(1, 1, 1, 1), padded(256, 1, 256, 1), "paddings 0 to 255", "conv", "padding [256, 1, 256, 1]"),
    (
        convolved(dilations=[2, 2]),
        lambda net, x: net.node("AveragePool", [net.reshape(x, (1, 8, 256), "row")], "pool", kernel_shape=[2]),
        "convolutions and poolings have two dimensions",
        "pool",
        "an input of 1 x 8 x 256",
    ),
    (added, tiled, "there is no Tile", "tile", "1 x 8 x 16 x 16 to 1 x 16 x 16 x 16"),
    (expanded_constant, None, "", "", ""),  # a constant itself
]


@pytest.mark.parametrize(
    ("within", "beyond", "message", "layer", "found"), LIMITS, ids=[f"{i}" for i in range(len(LIMITS))]
)
def test_limit(within: Build, beyond: Build | None, message: str, layer: str, found: str):
    divide(network(within), CV500)
    if beyond is not None:
        text = refusal(network(beyond))
        line = next(line for line in text.splitlines() if message in line)
        assert line.strip().startswith(f"{layer} (")
        assert line.endswith(f"; found {found}")
        assert "fix: " in text.split(line)[1].splitlines()[1]


def test_a_crop_is_refused_for_what_it_is(tmp_path: Path):
    (tmp_path / "net.prototxt").write_text(
        'input: "data" input_shape { dim: 1 dim: 8 dim: 16 dim: 16 }\n'
        'layer { name: "like" type: "Pooling" bottom: "data" top: "like"\n'
        "  pooling_param { kernel_size: 2 stride: 2 } }\n"
        'layer { name: "crop" type: "Crop" bottom: "data" bottom: "like" top: "crop"\n'
        "  crop_param { axis: 2 offset: 3 } }\n"
        'layer { name: "sum" type: "Eltwise" bottom: "crop" bottom: "like" top: "sum" }\n'
    )
    (tmp_path / "net.caffemodel").write_bytes(messages.NetParameter(name="n").SerializeToString())
    line = "crop (Crop): there is no Crop; found 1 x 8 x 16 x 16 to 1 x 8 x 8 x 8"
    assert line in refusal(import_caffe(tmp_path / "net.prototxt", tmp_path / "net.caffemodel").model)


def test_caffes_own_average_is_within_the_limits(tmp_path: Path):
    """Its last window reaches beyond the declared padding, for which the importer makes two nodes."""
    (tmp_path / "net.prototxt").write_text(
        'input: "data" input_shape { dim: 1 dim: 8 dim: 16 dim: 16 }\n'
        'layer { name: "pool" type: "Pooling" bottom: "data" top: "pool"\n'
        "  pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 } }\n"
    )
    (tmp_path / "net.caffemodel").write_bytes(messages.NetParameter(name="n").SerializeToString())
    model = import_caffe(tmp_path / "net.prototxt", tmp_path / "net.caffemodel").model
    assert [node.op_type for node in model.proto().graph.node] == ["Pad", "AveragePool"]
    assert [layer.name for layer in divide(model, CV500).layers] == ["pool"]


def test_group_limit():
    """A grouped convolution that is not depthwise: its weights have two input channels a group."""

    def build(groups: int) -> Model:
        net = Net()
        x = net.conv(net.input("data", 3, 8, 8), (3, 4096), "stem", kernel=1)
        return net.model(net.conv(x, (4096, 4096), "grouped", kernel=1, group=groups))

    divide(build(2048), CV500)  # two channels each: 2,048 groups are the most that 4,096 channels can have
    net = Net()
    x = net.conv(net.input("data", 3, 8, 8), (3, 2100), "stem", kernel=1)
    weight = net.weights("w", 4200, 1, 1, 1)
    text = refusal(net.model(net.node("Conv", [x, weight], "wide", kernel_shape=[1, 1], group=2100)))
    assert "at most 2,048 groups; found 2,100\n" in text


def test_pass_through_must_divide():
    """Shapes that do not divide are refused before any limit: the operator itself cannot be."""
    with pytest.raises(ModelError, match=r"divide|multiple"):
        divide(network(passed(5)), CV500)


def test_what_was_found_stands_with_each_layer_where_it_differs():
    def build(net: Net, x: str) -> str:
        first = net.node("Transpose", [x], "first", perm=[0, 3, 1, 2])
        return net.node("Transpose", [first], "second", perm=[0, 3, 2, 1])

    text = refusal(network(build))
    places = "  first (Permute; found (0,3,1,2)), second (Permute; found (0,3,2,1)):\n"
    assert f"{places}    Permute can only support (0,1,2,3) -> (0,2,3,1) order\n" in text


def test_what_moves_to_the_cpu_is_told_with_the_value_that_moved_it():
    divided = divide(network(concat(40)), Division("hi3516cv500", outside_limits_custom=True))
    assert divided.notes == ("layer cat runs on the CPU: a Concat takes at most 32 inputs; found 40",)


def test_all_violations_come_at_once():
    def build(net: Net, x: str) -> str:
        x = net.node("Transpose", [x], "perm", perm=[0, 3, 1, 2])
        x = net.node("Concat", [x] * 33, "cat", axis=1)
        return net.node("Pow", [x, net.constant("e", 0.7)], "power")

    text = refusal(network(build))
    assert text.startswith("3 limits of the NNIE are exceeded")
    assert all(f"{name} (" in text for name in ("perm", "cat", "power"))


def test_a_number_by_itself_has_no_batch():
    """A sum over the whole map ended in an IndexError."""

    def build(net: Net, x: str) -> str:
        total = net.node("ReduceSum", [x], "total", keepdims=0)
        return net.node("Mul", [x, total], "scaled")

    assert "scaled (Eltwise): the inputs of an Eltwise have one shape" in refusal(network(build))


def test_what_runs_on_the_cpu_is_free_of_limits():
    def build(net: Net, x: str) -> str:
        return net.tag(net.node("Transpose", [x], "perm_cpu", perm=[0, 3, 1, 2]), cpu=True)

    divide(network(build), CV500)


@pytest.mark.parametrize("chip", list(CHIPS))
def test_every_limit_has_a_text_and_a_remedy(chip):
    limits = CHIPS[chip].limits
    texts = [
        constraint_text(limit, limits) for limit in (*LAYER_LIMITS, *TAG_RULES, *NETWORK_LIMITS, *SEGMENT_LIMITS)
    ]
    assert len(set(texts)) == len(texts)
    for limit in (*LAYER_LIMITS, *TAG_RULES, *NETWORK_LIMITS, *SEGMENT_LIMITS):
        assert constraint_remedy(limit, limits)
        assert "{" not in constraint_text(limit, limits)


def test_a_chip_with_another_maximal_kernel_is_one_line_of_chips(monkeypatch):
    """The number stands with the chip alone: checks, messages and the page take it from there."""
    narrow = replace(CHIPS["hi3516cv500"], limits=NnieLimits(max_kernel=4))
    monkeypatch.setattr("nnkit_nnie.limits.context.CHIPS", {**CHIPS, "hi3516cv500": narrow})
    monkeypatch.setattr("nnkit_nnie.limits.page.CHIPS", {**CHIPS, "hi3516cv500": narrow})
    divide(network(convolved(kernel=4)), CV500)
    text = refusal(network(convolved(kernel=5)))
    assert "kernels are 1 to 4, strides and dilations 1 to 255, paddings 0 to 255; found kernel 5 x 5" in text
    divide(network(convolved(kernel=5)), Division("hi3516dv300"))
    assert "Hi3516CV500 has max_kernel 4" in limits_page()


def test_rows_that_the_cpu_makes_a_batch_are_no_batch_of_the_nnie():
    """A mapper's InnerProduct makes one vector of an image; 16 rows as a batch of 16 are not one."""
    net = Net()
    rows = net.reshape(net.input("data", 8, 16, 16), [16, 1, 128], "rows")
    model = net.model(net.node("MatMul", [rows, net.weights("w", 128, 4)], "product"))
    with pytest.raises(ModelError, match="nothing changes the batch dimension; found a batch of 16 behind rows"):
        divide(model, Division("hi3516cv500", custom=("rows",)))

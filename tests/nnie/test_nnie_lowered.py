"""What the nnie target lowers to: parts, the C of CPU segments, and tags that a search adds."""

from __future__ import annotations

import pytest
from nnie_networks import Net
from nnie_stn_project import stn_model

from nnkit.errors import ModelError
from nnkit.graph import Model
from nnkit.lowered import tagged_for_sixteen_bits
from nnkit_nnie.context import Division
from nnkit_nnie.lowered import NnieLowered

MIXED = Division("hi3516cv500", compile_mode=2)


def two_sided() -> Model:
    net = Net()
    x = net.node("Relu", [net.conv(net.input("data", 3, 16, 16), (3, 8), "stem")], "stem_relu")
    x = net.tag(net.node("Exp", [x], "exp_cpu"), cpu=True)
    x = net.conv(x, (8, 4), "head")
    return net.model(net.fc(net.node("Flatten", [x], "flat"), (1024, 6), "fc"))


def seen(lowered: NnieLowered) -> list[object]:
    """What the later stages read of it that tags change."""
    networks = [lowered.network, *(part.network for part in lowered.parts)]
    return [
        [(layer.name, layer.hp, layer.in_place) for network in networks for layer in network.layers],
        [[layer.hp for layer in segment.layers] for network in networks for segment in network.segments],
        [(part.pair.caffe.prototxt("net"), part.pair.caffe.caffemodel("net")) for part in lowered.parts],
        lowered.model.tags,
    ]


@pytest.mark.parametrize(
    ("model", "values"),
    [
        (two_sided(), ["stem", "fc"]),
        (two_sided(), ["head"]),
        (stn_model(), ["stn_conv"]),
        (stn_model(), ["net_conv"]),
    ],
)
def test_layers_in_sixteen_bits_are_those_of_a_network_that_is_tagged_so(model: Model, values: list[str]):
    plain = NnieLowered.of(model, MIXED)
    expected = NnieLowered.of(tagged_for_sixteen_bits(model, values), MIXED)
    assert seen(plain.with_sixteen_bits(values)) == seen(expected)
    assert seen(plain) != seen(expected)


def test_the_parts_and_the_c_of_the_cpu_come_with_the_network():
    lowered = NnieLowered.of(two_sided(), MIXED)
    assert [(segment.placement, segment.layers) for segment in lowered.segments] == [
        ("npu", ("stem",)),
        ("cpu", ("exp_cpu",)),
        ("npu", ("head", "fc")),
    ]
    assert [part.name for part in lowered.parts] == [""]
    assert list(lowered.cpu_code) == [1]
    assert "segment1.c" in lowered.cpu_code[1].files
    assert [part.name for part in NnieLowered.of(stn_model(), MIXED).parts] == ["stn", "net"]


def test_an_operator_without_c_is_refused_when_the_network_is_lowered():
    net = Net()
    x = net.conv(net.input("data", 3, 8, 8), (3, 4), "stem")
    x = net.tag(net.node("Resize", [x, "", net.constant("s", [1, 1, 2, 2])], "up_cpu", mode="cubic"), cpu=True)
    with pytest.raises(ModelError, match=r"no C can be generated for the CPU: segment 1: (.|\n)*up_cpu \(Resize\)"):
        NnieLowered.of(net.model(x), MIXED)


def test_what_caffe_cannot_express_is_refused_when_the_network_is_lowered():
    net = Net()
    x = net.conv(net.input("data", 3, 8, 8), (3, 4), "stem")
    pool = net.node("AveragePool", [x], "pool", kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
    with pytest.raises(ModelError, match=r"Caffe cannot express \(1\):\n  layer 'pool' \(AveragePool\): it averages"):
        NnieLowered.of(net.model(pool), MIXED)

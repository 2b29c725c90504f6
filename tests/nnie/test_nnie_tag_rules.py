"""Every rule of the tags `_hp`, `_cpu` and `_report`: what it refuses, what it notes, and what it allows."""

from __future__ import annotations

import pytest
from nnie_networks import OWN, Net
from nnie_small_layers import CV500, network, refusal, upsampled

from nnkit_nnie.limits.context import Division
from nnkit_nnie.segments import divide


def hp_conv(net: Net, x: str) -> str:
    return net.tag(net.conv(x, (8, 8), "conv_hp"), hp=True)


@pytest.mark.parametrize("mode", [0, 1])
def test_hp_needs_compile_mode_2(mode: int):
    divide(network(hp_conv), Division("hi3516cv500", compile_mode=2))
    text = refusal(network(hp_conv), Division("hi3516cv500", compile_mode=mode))
    rule = "conv_hp (Convolution): `_hp` may only stand on a layer with compile_mode 2"
    assert f"{rule}; found compile_mode {mode}\n" in text


def test_hp_on_a_cpu_layer_is_refused():
    def build(net: Net, x: str) -> str:
        return net.tag(net.node("Exp", [x], "exp"), hp=True, cpu=True)

    text = refusal(network(build), Division("hi3516cv500", compile_mode=2))
    assert "this layer runs on the CPU; found the tag `_cpu`\n" in text


def test_cpu_on_the_data_layer():
    net = Net()
    net.tag(net.input("data", 3, 16, 16), cpu=True)
    assert "data (data): `_cpu` cannot stand on the data layer" in refusal(net.model(net.conv("data", (3, 8), "c")))


def test_cpu_after_data():
    net = Net()
    x = net.tag(net.node("Exp", [net.input("data", 3, 16, 16)], "exp"), cpu=True)
    assert "exp (Exp): a `_cpu` layer cannot follow the data layer; found input data\n" in refusal(
        net.model(net.conv(x, (3, 8), "c"))
    )


def test_cpu_after_custom():
    def build(net: Net, x: str) -> str:
        return net.tag(net.node("Exp", [net.clip(x, "clip")], "exp"), cpu=True)

    text = refusal(network(build))
    assert "exp (Exp): a `_cpu` layer cannot follow a Custom layer; found it behind clip (Clip)\n" in text
    assert "name the layer in the option `custom`" in text

    def remedied(net: Net, x: str) -> str:
        return net.node("Exp", [net.clip(x, "clip")], "exp")

    divide(network(remedied), Division("hi3516cv500", custom=("exp",)))


def test_cpu_after_proposal():
    net = Net()
    info = net.input("im_info", 3)
    x = net.conv(net.input("data", 3, 16, 16), (3, 8), "stem")
    rois = net.node(
        "Proposal",
        [net.conv(x, (8, 18), "score"), net.conv(x, (8, 36), "box"), info],
        "rois",
        domain=OWN,
        ratio=[0.5, 1.0, 2.0],
        scale=[8.0, 16.0, 32.0],
        post_nms_topn=4,
    )
    out = net.tag(net.node("Exp", [rois], "exp"), cpu=True)
    rule = "exp (Exp): a `_cpu` layer cannot follow a Proposal layer; found it behind rois (Proposal)\n"
    assert rule in refusal(net.model(out))


def in_place(net: Net, x: str, **tags: bool) -> str:
    conv = net.metadata(net.conv(x, (8, 8), "conv"), caffe_layer="conv", caffe_type="Convolution")
    return net.metadata(net.node("Relu", [conv], "relu"), caffe_layer="relu", caffe_type="ReLU", caffe_in_place="1")


def test_cpu_on_an_in_place_activation():
    def build(net: Net, x: str) -> str:
        return net.tag(in_place(net, x), cpu=True)

    rule = "conv (Convolution): `_cpu` cannot stand on an activation that runs in place; found it on relu (ReLU)\n"
    assert rule in refusal(network(build))


def test_in_place_activation_of_a_cpu_layer_is_on_the_cpu_too():
    def build(net: Net, x: str) -> str:
        end = in_place(net, x)
        net.tag("conv", cpu=True)
        return end

    divided = divide(network(build), CV500)
    assert [segment.placement for segment in divided.segments] == ["npu", "cpu"]
    assert [node.name for node in divided.layers[-1].nodes] == ["conv", "relu"]


def test_upsample_after_a_cpu_layer():
    def build(net: Net, x: str) -> str:
        return upsampled(2)(net, net.tag(net.node("Exp", [x], "exp"), cpu=True))

    rule = "up (Upsample): an Upsample layer cannot follow a `_cpu` layer; found it behind exp (Exp)\n"
    assert rule in refusal(network(build))


def test_report_on_a_custom_top():
    def build(net: Net, x: str) -> str:
        return net.conv(net.clip(x, "clip_report"), (8, 8), "head")

    text = refusal(network(build))
    assert (
        "clip_report (Clip): `_report` cannot stand on the top of a Custom layer; found it on clip_report\n" in text
    )


def test_report_on_a_consumed_top_adds_an_output():
    def build(net: Net, x: str) -> str:
        return net.conv(net.conv(x, (8, 8), "mid_report"), (8, 8), "head")

    divided = divide(network(build), CV500)
    assert divided.segments[0].outputs == ("mid_report", "head")
    assert divided.notes == ()


def test_report_on_a_convolution_with_an_in_place_activation():
    """The two share one top, which is the convolution's: it is reported, after the activation."""

    def build(net: Net, x: str) -> str:
        conv = net.metadata(net.conv(x, (8, 8), "c_report"), caffe_layer="c", caffe_type="Convolution")
        relu = net.node("Relu", [conv], "relu_out")
        net.metadata(relu, caffe_layer="relu", caffe_type="ReLU", caffe_in_place="1")
        return net.conv(relu, (8, 8), "head")

    assert divide(network(build), CV500).segments[0].outputs == ("relu_out", "head")


@pytest.mark.parametrize("case", ["unread", "read by the cpu", "on cpu"])
def test_report_that_changes_nothing_is_noted(case: str):
    def build(net: Net, x: str) -> str:
        if case == "unread":
            return net.conv(x, (8, 8), "mid_report")
        if case == "read by the cpu":
            return net.tag(net.node("Exp", [net.conv(x, (8, 8), "mid_report")], "exp"), cpu=True)
        return net.tag(net.node("Exp", [x], "exp_report"), cpu=True)

    divided = divide(network(build), CV500)
    expected = {
        "unread": "a top that nothing reads is reported",
        "read by the cpu": "a top that the CPU reads is reported",
        "on cpu": "on the top of a `_cpu` layer is ignored",
    }
    assert len(divided.notes) == 1
    assert expected[case] in divided.notes[0]


def test_report_on_data_and_on_proposal_is_noted():
    net = Net()
    info = net.input("im_info", 3)
    x = net.conv(net.input("data_report", 3, 16, 16), (3, 8), "stem")
    rois = net.node(
        "Proposal",
        [net.conv(x, (8, 18), "score"), net.conv(x, (8, 36), "box"), info],
        "rois_report",
        domain=OWN,
        ratio=[0.5, 1.0, 2.0],
        scale=[8.0, 16.0, 32.0],
        post_nms_topn=4,
    )
    notes = divide(net.model(rois), CV500).notes
    assert [note for note in notes if "on data is ignored" in note]
    assert [note for note in notes if "of a Proposal layer is ignored" in note]

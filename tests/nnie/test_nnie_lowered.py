"""What the nnie target lowers to: parts, the C of CPU segments, and tags that a search adds."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
import yaml
from nnie_networks import Net
from nnie_stn_project import stn_model

from nnkit.errors import ModelError
from nnkit.graph import Model
from nnkit.lowered import tagged_for_sixteen_bits
from nnkit.recipe.restructure import StripVar
from nnkit.rewrite import restructure_steps
from nnkit.rewrite.catalogue import edit_with
from nnkit_nnie.limits.context import Division
from nnkit_nnie.lowered import NnieLowered

MIXED = Division("hi3516cv500", compile_mode=2)
SLICE = (("starts", 0), ("ends", 8), ("axes", 2), ("steps", 2))


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


def broken() -> Model:
    """A detection head that a limit, Caffe and the C of the CPU each stand against, at different layers."""
    net = Net()
    x = net.conv(net.input("data", 3, 32, 32), (3, 8), "stem")
    pool = net.node("AveragePool", [x], "pool", kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
    sizes = net.constant("s", [1, 2, 2, 2])
    up = net.tag(net.node("Resize", [x, "", sizes], "up_cpu", mode="linear"), cpu=True)
    boxes = net.node("Transpose", [net.conv(pool, (8, 4), "boxes")], "turned", perm=[0, 3, 1, 2])
    return net.model(boxes, up)


def test_limits_caffe_and_c_are_told_in_one_error():
    with pytest.raises(ModelError) as caught:
        NnieLowered.of(broken(), MIXED)
    text = str(caught.value)
    assert text.startswith("4 limits of the NNIE are exceeded:")
    for part in (
        "turned (Permute): Permute can only support (0,1,2,3) -> (0,2,3,1) order; found (0,3,1,2)",
        "up_cpu (Interp): it runs on the CPU, and nnkit has no C for this Resize: it resizes other dimensions",
        "up_cpu (Interp): Caffe cannot express it: it scales the batch or the channels",
        "pool (Pooling): Caffe cannot express it: it averages over other positions",
        "strip_var: {layers: [pool], then: cut}",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("head", "named"),
    [
        (lambda net, x: net.node("Transpose", [x], "turned", perm=[0, 2, 1, 3]), "turned"),
        (lambda net, x: net.node("Softmax", [net.reshape(x, (1, 2, 2, 64), "/head/Reshape")], "p", axis=0), "p"),
        (
            lambda net, x: net.node("Slice", [x, *(net.constant(n, [v], np.int64) for n, v in SLICE)], "every 2nd"),
            '"every 2nd"',
        ),
        (
            lambda net, x: net.node(
                "Transpose", [net.reshape(x, (1, 2, 2, 8, 8), "a/split")], "last", perm=[0, 1, 3, 4, 2]
            ),
            "a/split",
        ),
    ],
)
def test_mistake_5_heads_can_be_cut_off_as_the_remedy_says(head: Callable[[Net, str], str], named: str):
    """The remedy is taken by its word: the edit is read from it, made, and the network is lowered."""
    net = Net()
    model = net.model(head(net, net.conv(net.input("data", 3, 8, 8), (3, 4), "stem")))
    with pytest.raises(ModelError) as caught:
        NnieLowered.of(model, MIXED)
    found = re.search(r"strip_var: (\{.*, then: cut\})", str(caught.value))
    assert found is not None, str(caught.value)
    assert f"[{named}]" in found[0]
    step = edit_with("strip_var", StripVar.model_validate(yaml.safe_load(found[1])))
    cut = restructure_steps(model, [step]).model
    assert NnieLowered.of(cut, MIXED).network.layers[0].name == "stem"


def test_a_head_is_cut_off_before_all_that_is_refused_in_it():
    """Boxes are refused beside the scores, whose Transpose names the cut; followed, the remedy leaves no limit."""
    net = Net()
    x = net.conv(net.input("data", 3, 8, 8), (3, 4), "stem")
    flat = net.reshape(net.conv(x, (4, 2), "a"), (1, 64, 2), "flat_a")
    scores = net.node("Transpose", [flat], "scores", perm=[0, 2, 1])
    boxes = net.node("Exp", [net.reshape(net.conv(x, (4, 8), "b"), (1, 128, 4), "flat_b")], "boxes")
    model = net.model(scores, boxes)
    with pytest.raises(ModelError) as caught:
        NnieLowered.of(model, MIXED)
    found = re.search(r"strip_var: (\{.*, then: cut\})", str(caught.value))
    assert found is not None
    edit = StripVar.model_validate(yaml.safe_load(found[1]))
    assert set(edit.layers) == {"flat_a", "flat_b"}
    cut = restructure_steps(model, [edit_with("strip_var", edit)]).model
    assert [layer.name for layer in NnieLowered.of(cut, MIXED).network.layers] == ["stem", "a", "b"]


def test_a_layer_on_the_input_is_not_cut_off():
    net = Net()
    turned = net.node("Transpose", [net.input("data", 16, 16, 3)], "turned", perm=[0, 3, 1, 2])
    with pytest.raises(ModelError, match="turned \\(Permute\\)") as caught:
        NnieLowered.of(net.model(net.conv(turned, (3, 4), "stem")), MIXED)
    assert "strip_var" not in str(caught.value)


def test_what_caffe_cannot_express_goes_to_the_cpu_where_limits_are_let_go():
    net = Net()
    x = net.conv(net.input("data", 3, 8, 8), (3, 4), "stem")
    pool = net.node("AveragePool", [x], "pool", kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
    lowered = NnieLowered.of(net.model(pool), Division("hi3516cv500", outside_limits_custom=True))
    assert [segment.layers for segment in lowered.segments] == [("stem",), ("pool",)]
    (note,) = lowered.network.notes
    assert note.startswith("layer pool runs on the CPU: Caffe cannot express it: it averages over other positions")

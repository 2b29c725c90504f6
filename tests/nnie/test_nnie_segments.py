"""Layers and segments of small networks whose division is known beforehand."""

from __future__ import annotations

import numpy as np
import pytest
from nnie_networks import OWN, Net
from random_network_inputs import random_inputs

from nnkit.errors import ModelError
from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit_nnie.fixed_values import with_fixed_values
from nnkit_nnie.limits.context import Division
from nnkit_nnie.network import Network
from nnkit_nnie.segments import divide

CV500 = Division("hi3516cv500")


def sides(network: Network) -> list[str]:
    return [segment.placement for segment in network.segments]


def names(network: Network) -> list[list[str]]:
    return [[layer.name for layer in segment.layers] for segment in network.segments]


def plain() -> Model:
    net = Net()
    x = net.input("data", 3, 32, 32)
    x = net.conv(x, (3, 8), "conv1", strides=[2, 2])
    x = net.node("Relu", [x], "relu1")
    x = net.node("MaxPool", [x], "pool1", kernel_shape=[2, 2], strides=[2, 2])
    x = net.node("Flatten", [x], "flat")
    x = net.fc(x, (512, 10), "fc")
    x = net.node("Softmax", [x], "prob", axis=1)
    return net.model(x)


def test_one_segment_where_everything_is_the_nnies():
    network = divide(plain(), CV500)
    assert names(network) == [["conv1", "pool1", "fc", "prob"]]
    conv, pool, fc, prob = network.layers
    assert (conv.kind, pool.kind, fc.kind, prob.kind) == ("Convolution", "Pooling", "InnerProduct", "Softmax")
    assert [activation.name for activation in conv.in_place] == ["relu1"]
    assert (conv.inner, conv.outputs) == (("conv1",), ("relu1",))
    assert (fc.inner, fc.outputs, fc.inputs) == (("flat",), ("fc",), ("pool1",))
    assert (network.segments[0].inputs, network.segments[0].outputs) == (("data",), ("prob",))


def faster_rcnn() -> Model:
    """A region proposal network over a trunk, its proposals pooled from the trunk, and a head, as the seed has it."""
    net = Net()
    data = net.input("data", 3, 64, 64)
    info = net.input("im_info", 3)
    trunk = net.node("Relu", [net.conv(data, (3, 16), "conv5", strides=[16, 16])], "conv5_relu")
    rpn = net.node("Relu", [net.conv(trunk, (16, 16), "rpn_conv")], "rpn_relu")
    score = net.conv(rpn, (16, 18), "rpn_cls_score", kernel=1)
    box = net.conv(rpn, (16, 36), "rpn_bbox_pred", kernel=1)
    two = net.tag(net.reshape(score, [1, 2, 36, 4], "rpn_cls_score_reshape_cpu"), cpu=True)
    prob = net.tag(net.node("Softmax", [two], "rpn_cls_prob_cpu", axis=1), cpu=True)
    back = net.tag(net.reshape(prob, [1, 18, 4, 4], "rpn_cls_prob_reshape_cpu"), cpu=True)
    rois = net.node(
        "Proposal",
        [back, box, info],
        "rois",
        domain=OWN,
        feat_stride=16,
        base_size=16,
        min_size=16.0,
        ratio=[0.5, 1.0, 2.0],
        scale=[8.0, 16.0, 32.0],
        pre_nms_topn=100,
        post_nms_topn=8,
        nms_thresh=0.7,
    )
    pooled = net.node(
        "ROIPooling", [trunk, rois], "roi_pool", domain=OWN, pooled_h=2, pooled_w=2, spatial_scale=1.0 / 16
    )
    head = net.node("Relu", [net.fc(net.node("Flatten", [pooled], "flat"), (64, 32), "fc6")], "relu6")
    cls = net.fc(head, (32, 3), "cls_score")
    bbox = net.fc(head, (32, 12), "bbox_pred")
    final = net.tag(net.node("Softmax", [cls], "cls_prob_cpu", axis=1), cpu=True)
    return net.model(final, bbox)


def test_faster_rcnn_runs_as_nnie_cpu_nnie_cpu():
    network = divide(faster_rcnn(), Division("hi3559av100"))
    assert sides(network) == ["npu", "cpu", "npu", "cpu"]
    assert names(network)[1:] == [
        ["rpn_cls_score_reshape_cpu", "rpn_cls_prob_cpu", "rpn_cls_prob_reshape_cpu", "rois"],
        ["roi_pool", "fc6", "cls_score", "bbox_pred"],
        ["cls_prob_cpu"],
    ]
    first, second, third, fourth = network.segments
    assert first.outputs == ("conv5_relu", "rpn_cls_score", "rpn_bbox_pred")
    assert (second.inputs, second.outputs) == (("rpn_cls_score", "rpn_bbox_pred", "im_info"), ("rois",))
    assert (third.inputs, third.outputs) == (("conv5_relu", "rois"), ("cls_score", "bbox_pred"))
    assert (fourth.inputs, fourth.outputs) == (("cls_score",), ("cls_prob_cpu",))


def ssd() -> Model:
    net = Net()
    data = net.input("data", 3, 64, 64)
    x = net.node("Relu", [net.conv(data, (3, 8), "conv1", strides=[8, 8])], "relu1")
    loc = net.node("Transpose", [net.conv(x, (8, 8), "loc")], "loc_perm", perm=[0, 2, 3, 1])
    conf = net.node("Transpose", [net.conv(x, (8, 4), "conf")], "conf_perm", perm=[0, 2, 3, 1])
    loc = net.tag(net.node("Flatten", [loc], "loc_flat_cpu"), cpu=True)
    conf = net.tag(net.reshape(conf, [1, 128, 2], "conf_reshape_cpu"), cpu=True)
    conf = net.tag(net.node("Softmax", [conf], "conf_softmax_cpu", axis=2), cpu=True)
    conf = net.tag(net.node("Flatten", [conf], "conf_flat_cpu"), cpu=True)
    prior = net.node(
        "PriorBox",
        [x, data],
        "prior",
        domain=OWN,
        min_size=[16.0],
        max_size=[32.0],
        variance=[0.1, 0.1, 0.2, 0.2],
        offset=0.5,
    )
    out = net.node(
        "DetectionOutput",
        [loc, conf, prior],
        "detection_out",
        domain=OWN,
        num_classes=2,
        nms_threshold=0.45,
        top_k=10,
        keep_top_k=5,
        code_type="CENTER_SIZE",
        confidence_threshold=0.1,
    )
    return net.model(out)


def test_ssd_runs_its_detection_output_on_the_cpu():
    network = divide(ssd(), CV500)
    assert sides(network) == ["npu", "cpu"]
    assert network.segments[0].outputs == ("loc_perm", "conf_perm")
    assert {layer.name for layer in network.layers if layer.custom} == {"detection_out"}
    assert "prior" in network.graph.constants  # prior boxes depend on shapes alone


def test_fixed_values_leave_the_network_as_it_computes():
    model = ssd()
    inputs = random_inputs(model, 3)
    fixed = with_fixed_values(model)
    assert not {"PriorBox"} & {node.op_type for node in fixed.proto().graph.node}
    before, after = FloatSession(model).run(inputs), FloatSession(fixed).run(inputs)
    assert np.array_equal(before["detection_out"], after["detection_out"])
    assert with_fixed_values(plain()).digest == plain().digest


def test_parallel_branches_share_a_segment():
    """Two branches that both leave the NNIE and come back need three segments, not five."""
    net = Net()
    x = net.conv(net.input("data", 3, 16, 16), (3, 4), "stem")
    ends = []
    for branch in "ab":
        y = net.tag(net.node("Exp", [net.conv(x, (4, 4), f"{branch}1")], f"{branch}2"), cpu=True)
        ends.append(net.conv(y, (4, 4), f"{branch}3"))
    network = divide(net.model(net.node("Add", ends, "sum")), CV500)
    assert sides(network) == ["npu", "cpu", "npu"]
    assert names(network) == [["stem", "a1", "b1"], ["a2", "b2"], ["a3", "b3", "sum"]]


def test_ninth_segment_is_refused():
    def network(changes: int) -> Model:
        net = Net()
        x = net.input("data", 3, 16, 16)
        for index in range(changes):
            x = net.conv(x, (3, 3), f"conv{index}")
            x = net.tag(net.node("Exp", [x], f"exp{index}"), cpu=True)
        return net.model(x)

    assert len(divide(network(4), CV500).segments) == 8
    with pytest.raises(ModelError, match="at most 8 segments; found 10"):
        divide(network(5), CV500)


def test_seventeenth_output_is_refused():
    def network(count: int) -> Model:
        net = Net()
        x = net.conv(net.input("data", 3, 16, 16), (3, 3), "stem")
        return net.model(*[net.conv(x, (3, 3), f"head{index}") for index in range(count)])

    divide(network(16), CV500)
    with pytest.raises(ModelError, match="at most 16 inputs and 16 outputs; found 1 and 17"):
        divide(network(17), CV500)


def test_unknown_layer_is_custom_and_says_why():
    net = Net()
    x = net.conv(net.input("data", 3, 16, 16), (3, 4), "conv")
    x = net.clip(x, "clip")
    network = divide(net.model(net.conv(x, (4, 4), "head")), CV500)
    assert sides(network) == ["npu", "cpu", "npu"]
    assert network.layers[1].custom
    assert "does not know the type Clip" in network.layers[1].why_custom


def test_cpu_layer_without_c_is_refused_with_the_others():
    net = Net()
    x = net.conv(net.input("data", 3, 16, 16), (3, 4), "conv")
    x = net.node("Transpose", [net.node("Sin", [x], "sine")], "perm", perm=[0, 3, 1, 2])
    with pytest.raises(ModelError) as caught:
        divide(net.model(x), CV500)
    assert "sine (Sin): it runs on the CPU, and nnkit has no C for Sin" in str(caught.value)
    assert "perm (Permute)" in str(caught.value)


def test_recipe_names_custom_layers():
    network = divide(plain(), Division("hi3516cv500", custom=("pro*",)))
    assert sides(network) == ["npu", "cpu"]
    assert network.layers[-1].custom


def test_outside_limits_layers_move_to_the_cpu_where_allowed():
    net = Net()
    x = net.conv(net.input("data", 3, 16, 16), (3, 4), "conv")
    model = net.model(net.node("Transpose", [x], "perm", perm=[0, 3, 1, 2]))
    with pytest.raises(ModelError, match="Permute can only support"):
        divide(model, CV500)
    network = divide(model, Division("hi3516cv500", outside_limits_custom=True))
    assert sides(network) == ["npu", "cpu"]
    assert any("perm runs on the CPU" in note for note in network.notes)


@pytest.mark.parametrize(("kind", "gates"), [("GRU", 3), ("LSTM", 4), ("RNN", 1)])
def test_recurrent_layers_run_on_the_cpu_behind_convolutions(kind: str, gates: int) -> None:
    """Columns of a map as steps, as networks that read text have them."""
    net = Net()
    x = net.conv(net.input("data", 3, 8, 16), (3, 4), "conv")
    x = net.node("MaxPool", [x], "pool", kernel_shape=[8, 1], strides=[8, 1])
    x = net.node("Squeeze", [x, net.constant("axis", [2], np.int64)], "columns")
    x = net.node("Transpose", [x], "steps", perm=[2, 0, 1])
    weights = [net.constant(f"w{i}", np.ones((1, gates * 5, inputs))) for i, inputs in enumerate((4, 5))]
    x = net.node(kind, [x, *weights], "states", hidden_size=5)
    model = net.model(net.node("Transpose", [x], "last", perm=[1, 2, 0, 3]))
    with pytest.raises(ModelError, match=r"steps \(Permute"):
        divide(model, CV500)
    network = divide(model, Division("hi3516cv500", outside_limits_custom=True))
    assert sides(network) == ["npu", "cpu"]
    assert names(network)[1][-2:] == ["states", "last"]


@pytest.mark.parametrize(("count", "limit"), [(3, "a segment has at most 2 ROI layers"), (5, "at most 4 ROI layers")])
def test_too_many_roi_layers_are_told_by_name(count: int, limit: str):
    net = Net()
    x = net.conv(net.input("data", 3, 16, 16), (3, 4), "stem")
    rois = net.input("rois", 5)
    pooled = [
        net.node("ROIPooling", [x, rois], f"roi{i}", domain=OWN, pooled_h=2, pooled_w=2, spatial_scale=1.0)
        for i in range(count)
    ]
    named = ", ".join(f"roi{i}" for i in range(count))
    with pytest.raises(ModelError) as caught:
        divide(net.model(*pooled), CV500)
    assert f"{limit}; found {count} ({named})\n" in str(caught.value)

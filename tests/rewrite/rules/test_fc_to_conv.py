"""fc_to_conv: fully connected layers as convolutions."""

from __future__ import annotations

import pytest

RULE = "fc_to_conv"
COLLAPSE = "collapse_reshape"
SINK = "sink_reshape"


def _flatten(net, value, how, features):
    match how:
        case "Flatten":
            return net.op("Flatten", value, name="flat")
        case "Reshape":
            return net.op("Reshape", value, net.ints(1, features), name="flat")
        case "Reshape -1":
            return net.op("Reshape", value, net.ints(0, -1), name="flat")
    raise AssertionError(how)


@pytest.mark.parametrize("how", ["Flatten", "Reshape", "Reshape -1"])
@pytest.mark.parametrize("hw", [(1, 1), (3, 3), (2, 5)])
@pytest.mark.parametrize("transposed", [0, 1])
def test_after_a_flatten_it_is_one_full_window(graphs, how, hw, transposed):
    net = graphs.Net(x=(1, 4, *hw))
    features = 4 * hw[0] * hw[1]
    weight = net.normal(7, features) if transposed else net.normal(features, 7)
    value = net.op("Gemm", _flatten(net, "x", how, features), weight, net.normal(7), transB=transposed, name="fc")
    after, _ = graphs.apply(net.model(value), RULE)
    assert graphs.ops(after) == ["Conv", "Reshape"]
    conv = graphs.node(after, "Conv")
    assert graphs.constant(after, conv.input[1]).shape == (7, 4, *hw)
    assert conv.name == "fc"


@pytest.mark.parametrize("attributes", [{"alpha": 0.25, "beta": -2.0}, {"transA": 1}])
@pytest.mark.parametrize("bias_shape", [None, (7,), (1, 7), (1,), (1, 1), ()])
def test_gemm_attributes_and_biases(graphs, attributes, bias_shape):
    net = graphs.Net(x=(12, 1) if "transA" in attributes else (1, 12))
    bias = [] if bias_shape is None else [net.normal(*bias_shape)]
    after, _ = graphs.apply(net.model(net.op("Gemm", "x", net.normal(12, 7), *bias, **attributes)), RULE)
    assert graphs.ops(after) == ["Reshape", "Conv", "Reshape"]


@pytest.mark.parametrize("shape", [(1, 12), (12,), (1, 1, 12)])
def test_matmul_of_any_rank_with_one_row(graphs, shape):
    net = graphs.Net(x=shape)
    after, _ = graphs.apply(net.model(net.op("MatMul", "x", net.normal(12, 7))), RULE)
    assert graphs.ops(after) == ["Reshape", "Conv", "Reshape"]


def test_a_chain_of_layers_keeps_no_reshape_inside(graphs):
    net = graphs.Net(x=(1, 4, 3, 3))
    value = net.op("Flatten", net.op("Relu", "x"))
    for number, (features, outputs) in enumerate([(36, 20), (20, 10), (10, 5)]):
        value = net.op("Gemm", value, net.normal(features, outputs), net.normal(outputs), name=f"fc{number}")
        value = net.op("Relu", value) if number < 2 else value
    after, _ = graphs.apply(net.model(value), "remove_identity", COLLAPSE, RULE, SINK)
    assert graphs.ops(after) == ["Relu", "Conv", "Relu", "Conv", "Relu", "Conv", "Reshape"]


def test_a_shared_flatten_stays_for_the_others(graphs):
    net = graphs.Net(x=(1, 4, 3, 3))
    flat = net.op("Flatten", "x", name="flat")
    after, _ = graphs.apply(net.model(net.op("Gemm", flat, net.normal(36, 5)), net.op("Neg", flat)), RULE)
    assert sorted(graphs.ops(after)) == ["Conv", "Flatten", "Neg", "Reshape"]


def test_declines(graphs):
    net = graphs.Net(x=(1, 6), y=(6, 6), z=(3, 6))
    net.op("MatMul", "x", "y", name="two values")
    net.op("MatMul", "z", net.normal(6, 4), name="three rows")
    net.op("Gemm", "x", net.normal(6, 6), "x", name="computed bias")
    net.op("MatMul", net.normal(4, 6), "y", name="constant on the left")
    net.op("MatMul", "x", net.normal(2, 6, 3), name="batched")
    names = ["two values", "three rows", "computed bias", "constant on the left", "batched"]
    after, log = graphs.apply(net.model(*(f"{name}_v" for name in names)), RULE)
    assert "Conv" not in graphs.ops(after)
    assert {d.site: d.reason for d in log.of(RULE).declined} == {
        "two values": "it multiplies two computed values: its weights are not constant",
        "three rows": "it has more than one row: only batch 1 is supported",
        "computed bias": "its bias is not constant",
        "constant on the left": "its constant is the left factor; weights are the right one",
        "batched": "its weights have 3 axes instead of 2",
    }


def test_tags_go_to_the_convolution(graphs):
    net = graphs.Net(x=(1, 4, 3, 3))
    value = net.op("Gemm", net.op("Flatten", "x", name="flat"), net.normal(36, 5), name="fc")
    after, _ = graphs.apply(net.model(value, hp=["fc", "flat"], cpu=["fc"]), RULE)
    tags = after.tags.of(graphs.node(after, "Conv").output[0])
    assert tags.hp
    assert tags.cpu
    assert tags.origins == ("fc", "flat")
    assert len(after.tags.values) == 1


def test_a_flatten_tagged_cpu_is_kept(graphs):
    net = graphs.Net(x=(1, 4, 3, 3))
    value = net.op("Gemm", net.op("Flatten", "x", name="flat"), net.normal(36, 5), name="fc")
    after, _ = graphs.apply(net.model(value, cpu=["flat"]), RULE)
    assert graphs.ops(after) == ["Flatten", "Reshape", "Conv", "Reshape"]
    assert after.tags.of("flat_v").cpu

"""fc_to_conv with its companions collapse_reshape and sink_reshape."""

from __future__ import annotations

import numpy as np
import pytest

FC, COLLAPSE, SINK = "fc_to_conv", "collapse_reshape", "sink_reshape"


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
    after, _ = graphs.apply(net.model(value), FC)
    assert graphs.ops(after) == ["Conv", "Reshape"]
    conv = graphs.node(after, "Conv")
    assert graphs.constant(after, conv.input[1]).shape == (7, 4, *hw)
    assert conv.name == "fc"


@pytest.mark.parametrize("attributes", [{"alpha": 0.25, "beta": -2.0}, {"transA": 1}])
@pytest.mark.parametrize("bias_shape", [None, (7,), (1, 7), (1,), (1, 1), ()])
def test_gemm_attributes_and_biases(graphs, attributes, bias_shape):
    net = graphs.Net(x=(12, 1) if "transA" in attributes else (1, 12))
    bias = [] if bias_shape is None else [net.normal(*bias_shape)]
    after, _ = graphs.apply(net.model(net.op("Gemm", "x", net.normal(12, 7), *bias, **attributes)), FC)
    assert graphs.ops(after) == ["Reshape", "Conv", "Reshape"]


@pytest.mark.parametrize("shape", [(1, 12), (12,), (1, 1, 12)])
def test_matmul_of_any_rank_with_one_row(graphs, shape):
    net = graphs.Net(x=shape)
    after, _ = graphs.apply(net.model(net.op("MatMul", "x", net.normal(12, 7))), FC)
    assert graphs.ops(after) == ["Reshape", "Conv", "Reshape"]


def test_a_chain_of_layers_keeps_no_reshape_inside(graphs):
    net = graphs.Net(x=(1, 4, 3, 3))
    value = net.op("Flatten", net.op("Relu", "x"))
    for number, (features, outputs) in enumerate([(36, 20), (20, 10), (10, 5)]):
        value = net.op("Gemm", value, net.normal(features, outputs), net.normal(outputs), name=f"fc{number}")
        value = net.op("Relu", value) if number < 2 else value
    after, _ = graphs.apply(net.model(value), "remove_identity", COLLAPSE, FC, SINK)
    assert graphs.ops(after) == ["Relu", "Conv", "Relu", "Conv", "Relu", "Conv", "Reshape"]


def test_a_shared_flatten_stays_for_the_others(graphs):
    net = graphs.Net(x=(1, 4, 3, 3))
    flat = net.op("Flatten", "x", name="flat")
    after, _ = graphs.apply(net.model(net.op("Gemm", flat, net.normal(36, 5)), net.op("Neg", flat)), FC)
    assert sorted(graphs.ops(after)) == ["Conv", "Flatten", "Neg", "Reshape"]


def test_declines(graphs):
    net = graphs.Net(x=(1, 6), y=(6, 6), z=(3, 6))
    net.op("MatMul", "x", "y", name="two values")
    net.op("MatMul", "z", net.normal(6, 4), name="three rows")
    net.op("Gemm", "x", net.normal(6, 6), "x", name="computed bias")
    net.op("MatMul", net.normal(4, 6), "y", name="constant on the left")
    net.op("MatMul", "x", net.normal(2, 6, 3), name="batched")
    names = ["two values", "three rows", "computed bias", "constant on the left", "batched"]
    after, log = graphs.apply(net.model(*(f"{name}_v" for name in names)), FC)
    assert "Conv" not in graphs.ops(after)
    assert {d.site: d.reason for d in log.of(FC).declined} == {
        "two values": "it multiplies two computed values",
        "three rows": "it has more than one row: only batch 1 is supported",
        "computed bias": "its bias is not constant",
        "constant on the left": "its weights are not constant",
        "batched": "its weights have 3 axes instead of 2",
    }


def test_tags_go_to_the_convolution(graphs):
    net = graphs.Net(x=(1, 4, 3, 3))
    value = net.op("Gemm", net.op("Flatten", "x", name="flat"), net.normal(36, 5), name="fc")
    after, _ = graphs.apply(net.model(value, hp=["fc", "flat"], cpu=["fc"]), FC)
    tags = after.tags.of(graphs.node(after, "Conv").output[0])
    assert tags.hp
    assert tags.cpu
    assert tags.origins == ("fc", "flat")
    assert len(after.tags.values) == 1


def test_a_flatten_tagged_cpu_is_kept(graphs):
    net = graphs.Net(x=(1, 4, 3, 3))
    value = net.op("Gemm", net.op("Flatten", "x", name="flat"), net.normal(36, 5), name="fc")
    after, _ = graphs.apply(net.model(value, cpu=["flat"]), FC)
    assert graphs.ops(after) == ["Flatten", "Reshape", "Conv", "Reshape"]
    assert after.tags.of("flat_v").cpu


def test_collapse_merges_any_chain(graphs):
    net = graphs.Net(x=(1, 4, 3, 5))
    value = net.op("Unsqueeze", net.op("Reshape", "x", net.ints(4, 15)), net.ints(0))
    value = net.op("Transpose", net.op("Reshape", value, net.ints(1, 60, 1, 1)), perm=[0, 2, 3, 1])
    value = net.op("Flatten", net.op("Squeeze", value, net.ints(1)))
    after, _ = graphs.apply(net.model(net.op("Relu", value)), COLLAPSE)
    assert graphs.ops(after) == ["Reshape", "Relu"]


def test_collapse_leaves_a_transpose_that_moves_data(graphs):
    net = graphs.Net(x=(1, 4, 3, 5))
    value = net.op("Flatten", net.op("Transpose", "x", perm=[0, 2, 3, 1]))
    after, _ = graphs.apply(net.model(value), COLLAPSE)
    assert graphs.ops(after) == ["Transpose", "Flatten"]


def test_collapse_keeps_what_others_read_and_what_is_tagged_cpu(graphs):
    net = graphs.Net(x=(1, 4, 3, 5))
    first = net.op("Flatten", "x", name="f")
    second = net.op("Reshape", first, net.ints(1, 20, 3, 1), name="s")
    model = net.model(net.op("Neg", first), second)
    after, _ = graphs.apply(model, COLLAPSE)
    assert sorted(graphs.ops(after)) == ["Flatten", "Neg", "Reshape"]
    assert next(iter(graphs.node(after, "Reshape").input)) == "x"
    after, log = graphs.apply(net.model(net.op("Neg", first), second, cpu=["s"]), COLLAPSE)
    assert "`_cpu`" in log.of(COLLAPSE).declined[0].reason


@pytest.mark.parametrize(
    "build",
    [
        lambda net, v: net.op("Relu", v, name="a"),
        lambda net, v: net.op("Clip", v, net.const(0.0), net.const(6.0), name="a"),
        lambda net, v: net.op("LeakyRelu", v, alpha=0.2, name="a"),
        lambda net, v: net.op("PRelu", v, net.normal(6), name="a"),
        lambda net, v: net.op("PRelu", v, net.normal(1), name="a"),
        lambda net, v: net.op("Mul", net.normal(1, 6), v, name="a"),
        lambda net, v: net.op("Sub", net.const(1.0), v, name="a"),
        lambda net, v: net.batch_norm(v, 6, name="a"),
    ],
)
def test_sink_moves_the_reshape_behind(graphs, build):
    net = graphs.Net(x=(1, 6, 1, 1))
    value = build(net, net.op("Flatten", net.op("Neg", "x"), name="flat"))
    after, _ = graphs.apply(net.model(value, hp=["a"], cpu=["flat"]), SINK)
    ops = graphs.ops(after)
    assert ops[-1] == "Reshape"
    assert len(ops) == 3
    moved = after.proto().graph.node[1]
    assert moved.name == "a"
    assert after.tags.of(moved.output[0]).hp
    assert after.tags.of("a_v").cpu
    assert after.proto().graph.node[2].name == "flat"


def test_sink_declines(graphs):
    net = graphs.Net(x=(1, 2, 3, 1))
    shared = net.op("Flatten", "x", name="f1")
    net.op("Relu", shared, name="shared")
    net.op("PRelu", net.op("Flatten", "x"), net.normal(6), name="channels")
    net.batch_norm(net.op("Flatten", "x"), 6, name="norm")
    net.op("Add", net.op("Flatten", "x"), net.const(np.zeros((4, 6))), name="wider")
    outputs = [f"{n}_v" for n in ("shared", "channels", "norm", "wider")]
    after, log = graphs.apply(net.model(*outputs, shared), SINK)
    reasons = {d.site.split(" + ")[1]: d.reason for d in log.of(SINK).declined}
    assert "is also an output" in reasons["shared"]
    assert "changes the channels" in reasons["channels"]
    assert "changes its channels" in reasons["norm"]
    assert "widens" in reasons["wider"]
    assert "Reshape" not in graphs.ops(after)

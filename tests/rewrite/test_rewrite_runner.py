"""The runner: priority, fixpoints, the log, and what it does with rules that break their promise."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
from onnx import TensorProto

from nnkit.errors import InternalError, ModelError
from nnkit.graph.refusal import Refused
from nnkit.rewrite import (
    DEFAULT_RULES,
    Rule,
    available_rules,
    resolve_rules,
    restructure,
)
from nnkit.rewrite.reading import data_input, is_op


def _rule(name, rewrite, op="Relu", exact=True, check=lambda editor, nodes: nodes[0], cpu="blocks"):
    return Rule(name, exact, cpu, "a rule", lambda editor, node: (node,) if is_op(node, op) else None, check, rewrite)


@pytest.fixture
def small(graphs):
    net = graphs.Net(x=(1, 3, 8, 8))
    value = net.batch_norm(net.conv("x", (4, 3, 3, 3), name="conv"), 4, name="bn")
    return net.model(net.op("Sigmoid", net.op("Relu", value, name="act"), name="last"), hp=["bn"])


def test_input_is_never_changed(small):
    before = (hashlib.sha256(small.onnx_bytes).hexdigest(), small.digest, dict(small.tags.values))
    after, _ = restructure(small, resolve_rules(DEFAULT_RULES))
    assert after is not small
    assert before == (hashlib.sha256(small.onnx_bytes).hexdigest(), small.digest, dict(small.tags.values))


def test_result_is_deterministic(small):
    one, two = (restructure(small, resolve_rules(DEFAULT_RULES)) for _ in range(2))
    assert one[0].digest == two[0].digest
    assert one[1] == two[1]


def test_log_has_an_entry_per_rule_and_the_error(small):
    _, log = restructure(small, resolve_rules(["fold_batch_norm", "fuse_activation", "fuse_pool"]))
    assert [entry.name for entry in log.entries] == ["fold_batch_norm", "fuse_activation", "fuse_pool"]
    assert log.of("fold_batch_norm").fired == ("conv + bn",)
    assert log.of("fold_batch_norm").max_error > log.of("fold_batch_norm").relative_error > 0
    assert log.of("fold_batch_norm").relative_error < 1e-5
    assert log.of("fuse_activation").max_error == 0.0
    assert log.of("fuse_pool").max_error is None


def test_report_is_json(small):
    _, log = restructure(small, resolve_rules(DEFAULT_RULES))
    report = json.loads(json.dumps(log.report()))
    assert all({"name", "fired", "reason", "max_error"} <= set(item) for item in report)
    by_name = {item["name"]: item for item in report}
    assert by_name["fold_batch_norm"]["fired"] == 1
    assert by_name["fuse_pool"]["reason"] == "nothing in the graph has its pattern"


def test_order_is_priority(graphs):
    """A last resort listed after the proper rule must not fire, though other rules fire in between."""
    net = graphs.Net(x=(1, 12))
    fc = net.op("Gemm", net.op("Identity", "x"), net.normal(12, 5), name="fc")
    model = net.model(net.op("Relu", net.batch_norm(net.op("Dropout", fc), 5, name="bn")))
    names = ["fold_batch_norm", "remove_identity", "batch_norm_to_conv"]
    _, log = restructure(model, resolve_rules(names))
    assert log.of("fold_batch_norm").fired == ("fc + bn",)
    assert log.of("batch_norm_to_conv").fired == ()


def test_a_site_that_fires_later_is_not_listed_as_declined(graphs):
    net = graphs.Net(x=(1, 3, 8, 8))
    value = net.op("Sub", "x", net.const(2.0), name="sub")
    value = net.op("Gemm", net.op("Flatten", value), net.normal(192, 5), name="fc")
    _, log = restructure(net.model(value), resolve_rules(DEFAULT_RULES))
    assert log.of("fold_input_normalization").fired == ("sub + fc",)
    assert log.of("fold_input_normalization").declined == ()


def test_exact_rule_that_is_wrong_is_caught_and_named(small):
    def shift(editor, node):
        bn = editor.producer(data_input(node))
        gamma = editor.array(bn.inputs[1])
        bn.replace_input_with(1, editor.constant("gamma", (gamma * 1.001).astype(np.float32)))
        editor.become(node, "LeakyRelu", [data_input(node)], {"alpha": 0.0})

    with pytest.raises(InternalError) as error:
        restructure(small, [_rule("wrong", shift)])
    assert "rewrite 'wrong' is exact, yet it changed value 'bn_v'" in str(error.value)
    assert error.value.where == "bn"


def test_approximate_rule_is_measured_not_refused(small):
    def soften(editor, node):
        editor.become(node, "LeakyRelu", [data_input(node)], {"alpha": 0.01})

    _, log = restructure(small, [_rule("soft", soften, exact=False)])
    assert log.of("soft").max_error > 1e-4


def test_rule_that_loses_a_tag_is_caught(small):
    def lose(editor, node):
        bn = editor.producer(data_input(node))
        editor.forget_tags(bn)
        editor.become(node, "LeakyRelu", [data_input(node)], {"alpha": 0.0})

    with pytest.raises(InternalError, match="rewrite 'careless' lost the tag `_hp` of layer 'bn'"):
        restructure(small, [_rule("careless", lose)])


def test_rule_that_breaks_the_graph_is_caught(small):
    def break_it(editor, node):
        editor.become(node, "NoSuchOp", [data_input(node)], {})

    with pytest.raises(InternalError, match="rewrite 'breaker' left a graph that is not valid"):
        restructure(small, [_rule("breaker", break_it)])


def test_rule_that_gives_a_wrong_shape_is_caught(small):
    import onnx_ir as ir

    def reshape(editor, node):
        node.outputs[0].shape = ir.Shape([1, 4, 5, 6])
        editor.become(node, "LeakyRelu", [data_input(node)], {"alpha": 0.0})

    with pytest.raises(InternalError, match="not valid"):
        restructure(small, [_rule("shapeless", reshape)])


def test_rule_that_fires_for_ever_is_stopped(small):
    with pytest.raises(InternalError, match="fires without end"):
        restructure(small, [_rule("endless", lambda editor, node: None)], check_inputs=[])


def test_rules_that_undo_each_other_are_stopped(graphs):
    net = graphs.Net(x=(1, 3))
    model = net.model(net.op("Relu", "x"))
    there = _rule("there", lambda editor, n: editor.become(n, "LeakyRelu", [data_input(n)], {"alpha": 0.0}))
    back = _rule("back", lambda editor, n: editor.become(n, "Relu", [data_input(n)], {}), op="LeakyRelu")
    with pytest.raises(InternalError, match="do not come to rest"):
        restructure(model, [there, back], check_inputs=[])


def test_declining_is_logged_once_per_site(small):
    def check(editor, nodes):
        raise Refused("it is not the day")

    rule = _rule("never", lambda editor, node: None, check=check)
    _, log = restructure(small, [available_rules()["fold_batch_norm"], rule])
    (declined,) = log.of("never").declined
    assert (declined.site, declined.reason) == ("act", "it is not the day")


def test_nothing_but_the_errors_depends_on_comparing(graphs):
    """Where nothing is compared and no layer is tagged, the graph is written once, behind all rules."""
    net = graphs.Net(x=(1, 3, 8, 8))
    value = net.batch_norm(net.conv("x", (4, 3, 3, 3), name="conv"), 4, name="bn")
    model = net.model(net.op("Sigmoid", net.op("Relu", net.op("Dropout", value), name="act"), name="last"))
    compared, log = restructure(model, resolve_rules(DEFAULT_RULES))
    plain, short = restructure(model, resolve_rules(DEFAULT_RULES), check_inputs=[])
    assert plain.onnx_bytes == compared.onnx_bytes
    assert [entry.fired for entry in short.entries] == [entry.fired for entry in log.entries]


@pytest.mark.parametrize(("value", "error"), [(2.0, 0.0), (-2.0, 1.0)])
def test_given_samples_are_used(graphs, value, error):
    def soften(editor, node):
        editor.become(node, "LeakyRelu", [data_input(node)], {"alpha": 0.5})

    net = graphs.Net(x=(1, 3))
    model = net.model(net.op("Relu", "x"))
    samples = [{"x": np.full((1, 3), value, np.float32)}]
    _, log = restructure(model, [_rule("soft", soften, exact=False)], check_inputs=samples)
    assert log.of("soft").max_error == error


def test_graph_that_the_runtime_cannot_run_is_named(graphs):
    """ONNX allows a pool padded as wide as its window; ONNX Runtime does not."""

    def widen(editor, node):
        attributes = {"kernel_shape": [2, 2], "pads": [2, 0, 2, 0], "strides": [4, 1]}
        editor.become(node, "MaxPool", [data_input(node)], attributes)

    net = graphs.Net(x=(1, 3, 10, 8))
    model = net.model(net.op("AveragePool", "x", kernel_shape=[2, 2], strides=[3, 1], pads=[1, 0, 0, 0], name="p"))
    with pytest.raises(InternalError, match="rewrite 'wide' left a network that does not run: ONNX Runtime"):
        restructure(model, [_rule("wide", widen, op="AveragePool")])


def test_model_that_the_runtime_cannot_run_is_the_users(graphs):
    net = graphs.Net(x=(1, 3, 10, 8))
    value = net.op("MaxPool", "x", kernel_shape=[2, 2], pads=[2, 0, 2, 0], strides=[4, 1])
    with pytest.raises(ModelError, match="ONNX Runtime cannot run the network"):
        restructure(net.model(value), resolve_rules(DEFAULT_RULES))


def test_old_opset_is_refused(graphs):
    net = graphs.Net(opset=12, x=(1, 3))
    with pytest.raises(InternalError, match="opset 13"):
        restructure(net.model(net.op("Relu", "x")), [])


def test_values_at_the_end_of_float32_are_the_network_s_fault(graphs):
    """A weight of 3e38 times 2 is none, though the products of both with small numbers are: no bug of the rule."""
    net = graphs.Net(x=(1, 1, 5, 5))
    weight = net.const(np.full((1, 1, 1, 1), 3e38, np.float32))
    value = net.op("Conv", "x", weight, name="conv")
    scales = [net.const(np.full(1, number, np.float32)) for number in (2.0, 0.0, 0.0, 1.0)]
    model = net.model(net.op("BatchNormalization", value, *scales, epsilon=0.0, name="bn"))
    with pytest.raises(ModelError, match="so near to the largest float32"):
        restructure(model, resolve_rules(["fold_batch_norm"]))


@pytest.mark.parametrize(
    ("weight", "reason"),
    [
        (1e37, "so near to the largest float32"),
        (3e38, "so near to the largest float32"),
        (1e9, "a rounding of which"),
    ],
)
def test_a_clip_of_values_beside_which_float32_has_no_bound_is_no_bug_of_the_rule(graphs, weight, reason):
    """A Clip to 0..6 as the difference of two Relus has no 6 left beside 1e9."""
    net = graphs.Net(x=(1, 1, 5, 5))
    value = net.op("Conv", "x", net.const(np.full((1, 1, 1, 1), weight, np.float32)), name="conv")
    model = net.model(net.op("Clip", value, net.const(np.float32(0)), net.const(np.float32(6)), name="clip"))
    with pytest.raises(ModelError, match=reason):
        restructure(model, resolve_rules(["clip_to_relus"]))


def test_no_rule_takes_integer_arithmetic_for_layers_of_the_network(graphs):
    """An integer division cuts off; a rule for products with a factor would make a convolution of it."""
    net = graphs.Net(x=(1, 4, 6, 8))
    whole = net.op("Cast", net.op("Mul", "x", net.const(7.0)), to=TensorProto.INT64)
    other = net.op("Abs", whole)
    results = [
        net.op(op, whole, net.const(3, np.int64)) for op in ("Add", "Sub", "Mul", "Div", "Mod", "Min", "Max", "Pow")
    ]
    per_channel = net.const(np.arange(1, 5).reshape(4, 1, 1), np.int64)
    results += [net.op(op, other, per_channel) for op in ("Add", "Sub", "Mul", "Div", "Mod")]
    number = net.op("ReduceSum", other, net.ints(0, 1, 2, 3), keepdims=0)
    results += [net.op(op, other, number) for op in ("Add", "Mul", "Sub", "Div")]
    results += [net.op("MatMul", other, net.const(np.arange(24).reshape(8, 3), np.int64))]
    results += [net.op("MatMul", other, net.op("Transpose", other, perm=[0, 1, 3, 2]))]
    results += [net.op("Clip", whole, net.const(-5, np.int64), net.const(5, np.int64))]
    results += [net.op("ReduceMax", whole, axes=[2, 3]), net.op("ReduceSum", whole, net.ints(1))]
    results += [net.op("Concat", whole, net.op("Concat", other, other, axis=1), axis=1)]
    results += [net.op("Reshape", net.op("Transpose", whole, perm=[0, 2, 3, 1]), net.ints(1, 24, 8))]
    results += [net.op("Tile", whole, net.ints(1, 2, 1, 3)), net.op("Expand", number, net.ints(1, 2, 3))]
    results += [
        net.op("Pad", whole, net.ints(0, 0, 1, 2, 0, 0, 0, 1)),
        net.op("Slice", whole, net.ints(1), net.ints(3), net.ints(1)),
    ]
    results += [net.op("Gather", whole, net.ints(2, 0), axis=1), net.op("Identity", net.op("Neg", whole))]
    model = net.model(*(net.op("Cast", value, to=TensorProto.FLOAT) for value in results))
    after, log = restructure(model, list(available_rules().values()), check_inputs=[])
    assert any("computes integers" in site.reason for entry in log.entries for site in entry.declined)
    graphs.assert_equal(model, after, bound=0)

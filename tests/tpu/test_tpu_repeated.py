"""What the compiler does not keep apart: ops that nothing reads, and equal ops on the same values."""

from __future__ import annotations

from dataclasses import replace

from onnx import helper
from tpu_net import Net

from nnkit.graph import LayerTags, ValueTags
from nnkit_tpu.lowering import lower
from nnkit_tpu.program import TpuGraph


def lowered(net: Net, *outputs: str) -> TpuGraph:
    return lower(net.model(outputs), "net")


def test_what_nothing_reads_is_left_out() -> None:
    net = Net()
    first = net("Sigmoid", "x", to="first")
    net("Tanh", first, to="unread")
    net.nodes.append(helper.make_node("Split", [first, net.ints(3, 5)], ["lower", "upper"], name="split", axis=1))
    graph = lowered(net, "upper")
    assert [op.output for op in graph.ops] == ["first", "upper"]
    assert set(graph.tensors) == {"x", "first", "upper"}


def test_equal_ops_on_one_value_are_one() -> None:
    net = Net()
    one, two = net("Sigmoid", "x"), net("Sigmoid", "x")
    net("Add", net("Tanh", one), net("Tanh", two), to="sum")
    graph = lowered(net, "sum")
    assert [op.kind for op in graph.ops] == ["activation", "activation", "binary"]
    assert graph.ops[-1].inputs == (graph.ops[1].output, graph.ops[1].output)


def test_the_one_that_stays_has_the_name_of_an_output() -> None:
    net = Net()
    inner = net("Sigmoid", "x", to="inner")
    net("Tanh", inner, to="early")
    net("Sigmoid", "x", to="shown")
    graph = lowered(net, "early", "shown")
    assert [(op.inputs, op.output) for op in graph.ops] == [(("x",), "shown"), (("shown",), "early")]


def test_two_outputs_stay_two() -> None:
    net = Net()
    net("Sigmoid", "x", to="one")
    net("Sigmoid", "x", to="two")
    assert [op.output for op in lowered(net, "one", "two").ops] == ["one", "two"]


def test_what_differs_in_a_number_a_shape_or_weights_stays() -> None:
    net = Net()
    ends = [
        net("LeakyRelu", "x", alpha=0.1),
        net("LeakyRelu", "x", alpha=0.2),
        net("Add", "x", net.constant(1.0)),
        net("Add", "x", net.constant(2.0)),
        net("Reshape", "x", net.ints(1, 8, 120)),
        net("Reshape", "x", net.ints(1, 120, 8)),
        net("Conv", "x", net.normal(4, 8, 1, 1)),
        net("Conv", "x", net.normal(4, 8, 1, 1)),
    ]
    graph = lowered(net, *(net("Sigmoid", end) for end in ends))
    assert len(graph.ops) == 2 * len(ends)


def test_a_tag_of_either_counts() -> None:
    net = Net()
    one, two = net("Sigmoid", "x"), net("Sigmoid", "x", to="high")
    net("Add", net("Tanh", one), net("Abs", two), to="sum")
    model = net.model(["sum"])
    tagged = replace(model, tags=LayerTags({"high": ValueTags(hp=True)}))
    assert lower(tagged, "net").ops[0].tags == ("hp",)

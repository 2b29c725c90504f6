"""What the compiler for the BM chips would take apart or together, and crash on, in F16 and BF16."""

from __future__ import annotations

from pathlib import Path

from tpu_build import built, refuted
from tpu_net import Net

from nnkit_tpu.chip_forms import Written, for_chip
from nnkit_tpu.compile import CompileOptions, lower_graph
from nnkit_tpu.kept_apart import kept_apart
from nnkit_tpu.lowering import lower
from nnkit_tpu.program import TpuActivation, TpuGraph, TpuMatMul, TpuReshape
from nnkit_tpu.toolchain import Toolchain

_FEATURES, _HEADS = 20, 2


def _perceptron(net: Net, *hidden: int) -> str:
    """Products with a function behind each but the last."""
    value, width = "rows", _FEATURES
    for function, count in zip(("Tanh", "Sigmoid", "Tanh"), hidden, strict=False):
        product = net("Add", net("MatMul", value, net.normal(width, count)), net.normal(count))
        value, width = net(function, product, to=f"{function}_{count}"), count
    return net("MatMul", value, net.normal(width, _FEATURES), to="out")


def _attention(net: Net, *, masked: bool) -> str:
    """Heads whose scores are scaled behind their product, with a number for each pair of rows added or not."""
    heads = [
        net("Reshape", net("MatMul", "rows", net.normal(_FEATURES, _FEATURES)), net.ints(1, 6, _HEADS, -1))
        for _ in range(3)
    ]
    query, value = (net("Transpose", heads[index], perm=[0, 2, 1, 3]) for index in (0, 2))
    key = net("Transpose", heads[1], perm=[0, 2, 3, 1])
    scores = net("MatMul", query, key)
    if masked:
        scores = net("Add", net("Div", scores, net.constant(3.2)), net.normal(1, _HEADS, 6, 6))
    else:
        scores = net("Mul", scores, net.constant(0.3))
    mixed = net("Transpose", net("MatMul", net("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
    rows = net("Reshape", mixed, net.ints(1, 6, _FEATURES))
    return net("MatMul", rows, net.normal(_FEATURES, _FEATURES), to="masked" if masked else "plain")


def test_functions_between_products_and_scaled_scores_are_as_simulated(
    tpu_toolchain: Toolchain, tmp_path: Path
) -> None:
    net = Net()
    model = net.model([_perceptron(net, 32, 32), _attention(net, masked=False), _attention(net, masked=True)])
    report = built(model, "chip: bm1684x, precision: f16", tmp_path)
    assert report["status"] == "ok"
    assert not refuted(report)


def test_the_program_has_the_layers_of_the_network(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    net = Net()
    model = net.model([_perceptron(net, 32, 32), _attention(net, masked=False), _attention(net, masked=True)])
    graph = for_chip(lower(model, "net", "bm1688"), "bm1688", "BF16")
    lowered = lower_graph(tpu_toolchain, graph, CompileOptions(chip="bm1688", mode="BF16"), tmp_path)
    products = sum(isinstance(op, TpuMatMul) for op in graph.ops)
    assert lowered.ready.text.count('"tpu.MatMul"(') == products
    assert lowered.ready.text.count('"tpu.Softmax"(') == 2


def test_an_int8_network_with_all_layers_in_f16_is_as_simulated(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    net = Net()
    model = net.model([_perceptron(net, 32, 32)])
    report = built(model, "chip: bm1684x, tags: {hp: ['*']}", tmp_path)
    assert report["status"] == "ok"
    assert not refuted(report)


def _written(graph: TpuGraph, chip: str = "bm1684x") -> TpuGraph:
    return kept_apart(Written(graph, None, None), chip, "F16").graph


def _perceptron_graph(*hidden: int) -> TpuGraph:
    net = Net()
    return lower(net.model([_perceptron(net, *hidden)]), "net")


def _apart(graph: TpuGraph) -> list[int]:
    """How many values the functions have that are computed in another shape."""
    functions = [op for op in graph.ops if isinstance(op, TpuActivation)]
    return [
        graph.tensors[op.output].shape[2] for op in functions if isinstance(graph.producer(op.inputs[0]), TpuReshape)
    ]


def test_many_values_are_left_to_the_compiler_where_nothing_reads_them() -> None:
    assert _apart(_written(_perceptron_graph(255, 256))) == [255]
    assert _apart(_written(_perceptron_graph(127, 128), "bm1688")) == [127]


def test_many_values_stay_whole_where_they_are_read() -> None:
    graph = _perceptron_graph(256, 512)
    read = TpuGraph(graph.name, graph.tensors, graph.ops, graph.inputs, (*graph.outputs, "Tanh_256"))
    assert _apart(_written(read)) == [256]
    assert "Tanh_256" in {op.output for op in _written(read).ops}


def test_what_is_in_int8_or_float32_is_left_as_it_is() -> None:
    graph = _perceptron_graph(32, 32)
    assert kept_apart(Written(graph, None, None), "bm1684x", "INT8").graph is graph
    assert kept_apart(Written(graph, None, None), "bm1684x", "F32").graph is graph

"""GRU and LSTM as one layer: ONNX Runtime in float32, the vendor's chip model in what each chip computes them in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import helper
from tpu_build import built, refuted
from tpu_net import ROWS, Net

from nnkit.calibrate.stats import ValueRange
from nnkit.errors import ModelError
from nnkit.graph import Model
from nnkit.simulate import simulate
from nnkit_tpu.chip_forms import for_chip
from nnkit_tpu.chip_model import run_on_chip_model
from nnkit_tpu.compile import CompileOptions, compile_graph
from nnkit_tpu.execute import execute
from nnkit_tpu.function_tables import SIGMOID, TANH, in_bf16, logistic
from nnkit_tpu.lowering import lower
from nnkit_tpu.model_run import run_model_inside
from nnkit_tpu.quantize import Precision, graph_of, other_modes, table_ranges, to_program
from nnkit_tpu.recurrent import TpuRecurrent, run_over_steps, tabulated
from nnkit_tpu.toolchain import Toolchain

HIDDEN = 5
GATES = {"GRU": 3, "LSTM": 4}


def _recurrent(
    net: Net, to: str, op: str, *, direction: str = "forward", outputs: int = 2, after: int = 1, given: str = "rows"
) -> None:
    """The layer on the rows as one sequence of six steps; its results are `<to>_0`, `<to>_1` ..."""
    ways, width = (2 if direction == "bidirectional" else 1), GATES[op] * HIDDEN
    weights = net.normal(ways, width, 20), net.normal(ways, width, HIDDEN), net.normal(ways, 2 * width)
    more = {"linear_before_reset": after} if op == "GRU" else {}
    steps = net("Transpose", given, perm=[1, 0, 2], to=f"{to}_steps")
    results = [f"{to}_{index}" for index in range(outputs)]
    net.nodes.append(
        helper.make_node(op, [steps, *weights], results, name=to, hidden_size=HIDDEN, direction=direction, **more)
    )


def _both_results(net: Net, to: str) -> list[str]:
    """All states and the last ones, with the image in front."""
    every = net("Transpose", f"{to}_0", perm=[2, 0, 1, 3], to=f"{to}_every")
    return [every, net("Transpose", f"{to}_1", perm=[1, 0, 2], to=f"{to}_last")]


KINDS = [(op, direction) for op in GATES for direction in ("forward", "bidirectional")]


def _network() -> Model:
    net = Net()
    outputs = []
    for index, (op, direction) in enumerate(KINDS):
        _recurrent(net, f"r{index}", op, direction=direction)
        outputs += _both_results(net, f"r{index}")
    return net.model(outputs)


def test_in_float32_they_are_what_onnx_runtime_computes() -> None:
    model = _network()
    graph = lower(model, "net")
    assert sum(isinstance(op, TpuRecurrent) for op in graph.ops) == len(KINDS)
    program = to_program(graph, {}, Precision("bm1684x", "F32"))
    x = np.random.default_rng(2).normal(0, 1, ROWS).astype(np.float32)
    values = simulate(program, {"rows": x[0]})
    session = onnxruntime.InferenceSession(model.onnx_bytes, providers=["CPUExecutionProvider"])
    for name, truth in zip(program.outputs, session.run(None, {"rows": x}), strict=True):
        np.testing.assert_allclose(values[name], truth[0], atol=2e-6)


@pytest.mark.parametrize(
    "options",
    ["chip: bm1684x", "chip: bm1688", "chip: bm1684x, precision: f16", "chip: bm1688, precision: bf16"],
)
def test_the_chip_model_agrees(tpu_toolchain: Toolchain, tmp_path: Path, options: str) -> None:
    report = built(_network(), options, tmp_path)
    assert refuted(report) == []
    assert report["status"] == "ok"
    assert report["verify"]["float_vs_program"]["sqnr_db"] > 30


@pytest.mark.parametrize("options", ["chip: cv181x", "chip: cv181x, precision: bf16"])
def test_on_the_cv18xx_every_state_is_as_simulated(tpu_toolchain: Toolchain, tmp_path: Path, options: str) -> None:
    """Four layers on one value: GRUs, of which the compiler takes one, and LSTMs; with biases of the state."""
    report = built(_network(), options, tmp_path)
    assert refuted(report) == []
    assert report["status"] == "ok"
    assert all(entry["max_difference"] == 0 for entry in report["verify"]["program_vs_artifact"])
    assert report["verify"]["float_vs_program"]["sqnr_db"] > 30


def test_functions_are_looked_up_between_256_places() -> None:
    x = in_bf16(np.random.default_rng(5).normal(0, 4, 4096))
    for table, function in ((SIGMOID, logistic), (TANH, np.tanh)):
        assert np.abs(table.at(x) - function(x)).max() < 2**-7
        at_places = in_bf16(np.arange(-16.0, 16.0) * 8 * 2 * table.end / 256)
        assert np.abs(table.at(at_places) - function(at_places)).max() <= 2**-8
    assert SIGMOID.at(np.array([-100.0, 100.0])).tolist() == pytest.approx([0.0, 1.0], abs=1e-3)


def test_biases_of_the_state_are_added_to_those_of_the_input_where_that_is_the_same() -> None:
    random = np.random.default_rng(6)
    rows = random.normal(0, 1, (1, *ROWS[1:]))
    for cell, gates in (("gru", 3), ("lstm", 4)):
        weights = [random.normal(0, 0.3, (2, gates * HIDDEN, width)).astype(np.float32) for width in (20, HIDDEN)]
        bias = in_bf16(random.normal(0, 1, (2, 2 * gates * HIDDEN))).astype(np.float32)
        fields = {"weight": weights[0], "recurrent": weights[1], "bias": bias}
        layer = TpuRecurrent(name="r", inputs=("x",), output="r", cell=cell, **fields)  # type: ignore[arg-type]
        moved = replace(tabulated(layer), by_tables=False)
        assert moved.bias.any(axis=0)[gates * HIDDEN :].sum() == (HIDDEN if cell == "gru" else 0)
        np.testing.assert_allclose(run_over_steps(moved, rows), run_over_steps(layer, rows), atol=1e-6)


def test_several_images_are_each_computed_as_one_alone(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    program = to_program(lower(_network(), "net"), {}, Precision("bm1684x", "F32"))
    options = CompileOptions("bm1684x", "F32", batch=3)
    compiled = compile_graph(tpu_toolchain, graph_of(program), options, tmp_path, search=False)
    rows = np.random.default_rng(3).normal(0, 1, (3, *ROWS[1:])).astype(np.float32)
    outputs = run_on_chip_model(tpu_toolchain, compiled.model, "bm1684x", {"rows": rows})
    for image, given in enumerate(rows):
        alone = simulate(program, {"rows": given})
        for name, together in zip(program.outputs, outputs.values(), strict=True):
            np.testing.assert_allclose(together[image].reshape(alone[name].shape), alone[name], atol=1e-5)


def test_behind_a_layer_in_f16_an_lstm_runs_in_float32() -> None:
    """No code casts F16 to BF16, nor back."""
    net = Net()
    net("LayerNormalization", "rows", net.constant(np.ones(20)), axis=-1, to="normal")
    _recurrent(net, "r", "LSTM", given="normal")
    graph = lower(net.model(_both_results(net, "r")), "net")
    ranges = dict.fromkeys(graph.tensors, ValueRange(-1.0, 1.0, -1.0, 1.0))
    modes = {op.kind: op.mode for op in to_program(graph, ranges, Precision("bm1684x", "INT8")).ops}  # type: ignore[attr-defined]
    assert modes["layer_norm"] == "F16"
    assert modes["recurrent"] == "F32"


def test_rows_that_a_softmax_reads_leave_an_lstm_in_bf16() -> None:
    """As recognisers of text end: its states, a product of each step, and a softmax."""
    net = Net()
    _both_ways(net, "MatMul")
    model = net.model([net("LogSoftmax", net("Reshape", "last", net.ints(1, 6, 7)), axis=-1)])
    graph = for_chip(lower(model, "net"), "bm1684x", "INT8")
    ranges = dict.fromkeys(graph.tensors, ValueRange(-1.0, 1.0, -1.0, 1.0))
    modes = {op.kind: op.mode for op in to_program(graph, ranges, Precision("bm1684x", "INT8")).ops}  # type: ignore[attr-defined]
    assert (modes["recurrent"], modes["matmul"]) == ("BF16", "INT8")


def _both_ways(net: Net, last: str) -> Model:
    """An LSTM in both directions, joined by reshapes, and a layer on each step."""
    _recurrent(net, "r", "LSTM", direction="bidirectional")
    turned = net("Transpose", "r_0", perm=[2, 0, 1, 3])
    joined = net("Reshape", net("Unsqueeze", turned, net.ints(2)), net.ints(1, 6, 1, 2 * HIDDEN), to="joined")
    return net.model([net(last, joined, *([net.normal(2 * HIDDEN, 7)] if last == "MatMul" else []), to="last")])


@pytest.mark.parametrize(("last", "mode"), [("MatMul", "BF16"), ("Softmax", "F32")])
def test_reshapes_behind_an_lstm_move_what_it_computed(
    tpu_toolchain: Toolchain, tmp_path: Path, last: str, mode: str
) -> None:
    """The compiler makes integers where something computes with them; no code of its casts BF16 to F16."""
    graph = lower(_both_ways(Net(), last), "net")
    ranges = dict.fromkeys(graph.tensors, ValueRange(-1.0, 1.0, -1.0, 1.0))
    program = to_program(graph, ranges, Precision("bm1684x", "INT8"))
    assert {op.mode for op in graph_of(program).ops if op.kind in ("recurrent", "reshape")} == {mode}
    shown = replace(graph_of(program), outputs=tuple(op.output for op in graph.ops))
    known, modes = table_ranges(shown, ranges, "bm1684x"), other_modes(program, "INT8")
    how = CompileOptions("bm1684x")
    compiled = compile_graph(tpu_toolchain, shown, how, tmp_path, ranges=known, modes=modes, search=False)
    if last == "Softmax":  # that there is a model is what matters
        return
    rows = {"rows": np.random.default_rng(4).normal(0, 1, ROWS[1:]).astype(np.float32)}
    build = {"chip": "bm1684x", "names": compiled.locations}
    held = rows | run_model_inside(tpu_toolchain, compiled.model, program, build, [rows])[0]
    (product,) = (op for op in shown.ops if op.kind == "matmul")
    again = execute(product, [held[name] for name in product.inputs], program.tensors[product.output])
    assert again.std() > 10
    assert np.array_equal(held[product.output], again)


def test_what_runs_backwards_alone_is_refused_with_the_rewrite_that_helps() -> None:
    net = Net()
    _recurrent(net, "r", "GRU", direction="reverse")
    with pytest.raises(ModelError, match="it runs backwards alone") as caught:
        lower(net.model(_both_results(net, "r")), "net")
    assert "unroll_recurrent" in str(caught.value)


def test_a_gru_that_resets_first_is_refused() -> None:
    net = Net()
    _recurrent(net, "r", "GRU", after=0)
    with pytest.raises(ModelError, match="resets its state before the product"):
        lower(net.model(_both_results(net, "r")), "net")


def test_a_last_cell_is_refused_with_the_rewrite_that_helps() -> None:
    net = Net()
    _recurrent(net, "r", "LSTM", outputs=3)
    cell = net("Transpose", "r_2", perm=[1, 0, 2], to="cell")
    with pytest.raises(ModelError, match="its last cell is read") as caught:
        lower(net.model([cell]), "net")
    assert "unroll_recurrent" in str(caught.value)

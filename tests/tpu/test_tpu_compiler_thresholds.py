"""Thresholds as the compiler settles them: predicted integers against those of its lowered program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from nnkit.calibrate.stats import ValueRange
from nnkit.importers import import_onnx
from nnkit_tpu import report
from nnkit_tpu.chip_forms import for_chip
from nnkit_tpu.compile import CompileOptions, lower_graph
from nnkit_tpu.layer_group.injection import compile_groups
from nnkit_tpu.lowering import lower
from nnkit_tpu.mlir_reader import disagreements, read_lowered
from nnkit_tpu.options import TpuOptions
from nnkit_tpu.quantize import Precision, graph_of, other_modes, table_ranges, to_program
from nnkit_tpu.toolchain import Toolchain

SIDE = 16


class Net:
    """Nodes on the input `x` of 3 channels; a node's output is named by its place."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(2)

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        self.weights.append(numpy_helper.from_array(np.asarray(values, dtype), f"constant_{len(self.weights)}"))
        return self.weights[-1].name

    def __call__(self, op: str, *inputs: str, parts: int = 1, **attributes: Any) -> str:
        names = [f"{op.lower()}_{len(self.nodes)}" + (f"_{part}" if part else "") for part in range(parts)]
        self.nodes.append(helper.make_node(op, inputs, names, name=names[0], **attributes))
        return names[0]

    def conv(self, x: str = "x", inputs: int = 3, outputs: int = 8, kernel: int = 3, stride: int = 1) -> str:
        weight = self.constant(self.random.normal(0, 0.4, (outputs, inputs, kernel, kernel)))
        bias = self.constant(self.random.normal(0, 0.1, outputs))
        return self("Conv", x, weight, bias, pads=[kernel // 2] * 4, strides=[stride] * 2)

    def saved(self, output: str, folder: Path) -> Path:
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
            self.weights,
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(onnx.shape_inference.infer_shapes(made), folder / "net.onnx")
        return folder / "net.onnx"


def _between_convolutions(factor: float) -> Callable[[Net], str]:
    """The compiler takes such a factor into a convolution, or crashes on it where it also reads the table."""

    def made(net: Net) -> str:
        return net.conv(net("Mul", net("Relu", net.conv()), net.constant(factor)), 8)

    return made


def _joined(factor: float) -> Callable[[Net], str]:
    """Signed and unsigned parts, a product of unsigned tensors, and a product with a number."""

    def made(net: Net) -> str:
        x = net.conv()
        squashed = net("Sigmoid", x)
        parts = [net("Tanh", x), net("Mul", squashed, squashed), net("Mul", squashed, net.constant(factor))]
        return net("Concat", *parts, axis=1)

    return made


def _numbers_in_a_row(net: Net) -> str:
    moved = net("Add", net("Mul", net("Relu", net.conv()), net.constant(2.0)), net.constant(0.3))
    grown = net("Mul", net("Sub", moved, net.constant(0.5)), net.constant(8.0))
    return net("Reshape", grown, net.constant([1, -1], np.int64))


def _joined_alone(other: str) -> Callable[[Net], str]:
    """A sigmoid that only a concatenation reads, beside a larger part, or one equally large."""

    def made(net: Net) -> str:
        return net("Concat", net("Sigmoid", net.conv()), net(other, net.conv()), axis=1)

    return made


def _sum_of_products(net: Net) -> str:
    one, other = net.conv(), net.conv()
    return net("Add", net("Mul", net("Sigmoid", one), one), net("Mul", net("Sigmoid", other), other))


def _boxes(net: Net) -> str:
    """A detector's head with the arithmetic of its boxes."""
    side = SIDE // 2
    raw = net("Reshape", net.conv(outputs=24, stride=2), net.constant([1, 3, 8, side * side], np.int64))
    squashed = net("Sigmoid", net("Transpose", raw, perm=[0, 1, 3, 2]))
    xy = net("Split", squashed, net.constant([2, 2, 4], np.int64), parts=3, axis=3)
    grid = np.stack(np.meshgrid(np.arange(side), np.arange(side)), -1).reshape(1, 1, -1, 2) - 0.5
    centre = net("Mul", net("Add", net("Mul", xy, net.constant(2.0)), net.constant(grid)), net.constant(8.0))
    doubled = net("Mul", net("Mul", f"{xy}_1", net.constant(2.0)), f"{xy}_1")
    size = net("Mul", doubled, net.constant(net.random.uniform(5, 50, (1, 3, 1, 2))))
    return net("Concat", centre, size, f"{xy}_2", axis=3)


def _skipped(net: Net) -> str:
    """A part that a maximum pool reads besides, and a smaller one that is enlarged."""
    wide = net("Relu", net.conv())
    pooled = net("MaxPool", wide, kernel_shape=[2, 2], strides=[2, 2])
    small = net("Relu", net("Conv", pooled, net.constant(net.random.normal(0, 0.05, (16, 8, 1, 1)))))
    sizes = net.constant([1, 1, 2, 2])
    enlarged = net("Resize", small, "", sizes, mode="nearest", coordinate_transformation_mode="asymmetric")
    return net.conv(net("Concat", enlarged, wide, axis=1), 24)


def _in_part(net: Net) -> str:
    """A matrix product into which the compiler takes the factor behind it, as in a residual that counts in part."""
    product = net("MatMul", "x", net.constant(net.random.normal(0, 0.3, (SIDE, SIDE))))
    biased = net("Add", product, net.constant(net.random.normal(0, 0.1, SIDE)))
    return net("Add", "x", net("Mul", biased, net.constant(0.3)))


def _selected_over_channels(net: Net) -> str:
    """A map's largest and smallest channels, far smaller than the map itself, joined with its average."""
    x = net("Relu", net.conv())
    parts = [net(f"Reduce{how}", x, axes=[1], keepdims=1) for how in ("Mean", "Min")]
    most = net("ReduceMax", net("Neg", x), axes=[1], keepdims=1)
    return net.conv(net("Concat", *parts, most, axis=1), 3)


CASES: dict[str, Callable[[Net], str]] = {
    "product in part": _in_part,
    "skipped": _skipped,
    "selected over channels": _selected_over_channels,
    "doubled between convolutions": _between_convolutions(2.0),
    "turned between convolutions": _between_convolutions(-0.3),
    "joined": _joined(3.0),
    "joined and turned": _joined(-3.0),
    "numbers in a row": _numbers_in_a_row,
    "joined with a larger part": _joined_alone("Relu"),
    "joined with an equal part": _joined_alone("Sigmoid"),
    "sum of products": _sum_of_products,
    "boxes": _boxes,
}


@pytest.mark.parametrize("chip", ["bm1684x", "cv181x"])
@pytest.mark.parametrize("case", list(CASES))
def test_the_compiler_chooses_what_was_predicted_and_compiles(
    tpu_toolchain: Toolchain, tmp_path: Path, case: str, chip: str
) -> None:
    net = Net()
    path = net.saved(CASES[case](net), tmp_path)
    model = import_onnx(path).model
    graph = for_chip(lower(model, "net", chip), chip, "INT8")
    ranges = _ranges(path)
    program = to_program(graph, ranges, Precision(chip, "INT8"))
    prepared = graph_of(program)
    lowered = lower_graph(
        tpu_toolchain,
        prepared,
        CompileOptions(chip),
        tmp_path,
        ranges=table_ranges(prepared, ranges, chip),
        modes=other_modes(program, "INT8"),
    )
    text = lowered.mlir.read_text(encoding="utf-8")
    wrong, compared = disagreements(program, read_lowered(text), lowered.weights, lowered.locations)
    assert wrong == ()
    assert compared >= 2
    assert compile_groups(tpu_toolchain, lowered.ready, search=False).model


def _ranges(path: Path) -> dict[str, ValueRange]:
    """Of every value, by ONNX Runtime, on three inputs."""
    proto = onnx.load(path)
    names = [output for node in proto.graph.node for output in node.output]
    del proto.graph.output[:]
    proto.graph.output.extend(helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in names)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    random = np.random.default_rng(1)
    seen: dict[str, list[np.ndarray]] = {}
    for _ in range(3):
        x = random.normal(0, 1, (1, 3, SIDE, SIDE)).astype(np.float32)
        for name, value in zip(["x", *names], [x, *session.run(names, {"x": x})], strict=True):
            seen.setdefault(name, []).append(value)
    bounds = {name: (float(np.min(values)), float(np.max(values))) for name, values in seen.items()}
    return {name: ValueRange(low, high, low, high) for name, (low, high) in bounds.items()}


def test_every_disagreement_is_counted_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = [{"layer": f"layer {index // 2}", "what": f"{index} weights"} for index in range(10)]
    build = {
        "plan": {"layer_cycles": {}},
        "pixels": {},
        "batch": 1,
        "prediction": {"layers": 40, "disagreements": wrong},
    }
    nothing: Any = SimpleNamespace(program=SimpleNamespace(ops=()))
    monkeypatch.setattr(report, "read_build", lambda _: build)
    lines = report.report_details(nothing, TpuOptions(chip="bm1684x"), tmp_path)["summary"]
    assert "for 5 of 40 layers" in lines[0]
    assert lines[1].endswith("layer 0: 0 weights")
    assert len(lines) == 10
    assert "2 more" in lines[-1]


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688", "cv181x"])
def test_sums_of_unlike_ranges_are_in_floating_point_where_the_compiler_has_them_so(
    tpu_toolchain: Toolchain, tmp_path: Path, chip: str
) -> None:
    """By default, without a word about their precision."""
    times = {"just_alike": 64.0, "unlike": 64.1, "unlike_the_other_way": 1 / 64.1, "a_dead_branch": 1e5}
    net = Net()
    net.nodes.append(helper.make_node("Conv", ["x", net.constant(np.ones((4, 3, 1, 1)))], ["branch"], name="branch"))
    for index, name in enumerate(times):
        weight = net.constant(np.full((4, 3, 1, 1), index + 2.0))
        net.nodes.append(helper.make_node("Conv", ["x", weight], [f"to_{name}"], name=f"to_{name}"))
        net.nodes.append(helper.make_node("Add", ["branch", f"to_{name}"], [name], name=name))
    net.nodes.append(helper.make_node("Concat", list(times), ["joined"], name="joined", axis=1))
    graph = lower(import_onnx(net.saved("joined", tmp_path)).model, "net", chip)
    ranges = dict.fromkeys(graph.tensors, ValueRange(-2.0, 2.0, -2.0, 2.0))
    ranges |= {f"to_{name}": ValueRange(-2 * ratio, 2 * ratio, 0.0, 0.0) for name, ratio in times.items()}
    program = to_program(graph, ranges, Precision(chip, "INT8"))
    table = table_ranges(graph, ranges, chip)
    lowered = lower_graph(tpu_toolchain, graph, CompileOptions(chip), tmp_path, ranges=table)
    theirs = read_lowered(lowered.mlir.read_text(encoding="utf-8"))
    floating = {name for name in times if theirs[lowered.locations[name]].scale is None}
    assert floating == {op.name for op in program.ops if op.name in times and op.mode != "INT8"}  # type: ignore[attr-defined]
    assert len(floating) == 3

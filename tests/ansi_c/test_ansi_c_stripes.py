"""The first layers in stripes of rows: the same values as whole, in less memory. ONNX Runtime is the truth."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ansi_c_library import NO_STATISTICS, SANITIZERS, outputs
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from onnx import NodeProto, helper
from segment_networks import network, normal
from small_project import make_build

from nnkit import pipeline
from nnkit.builds import open_build
from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.graph.view import GraphView
from nnkit.importers import import_onnx
from nnkit_ansi_c.emit import emit_library
from nnkit_ansi_c.lowered import AnsiCLowered, arena_bytes
from nnkit_ansi_c.network import Network
from nnkit_ansi_c.options import AnsiCOptions
from nnkit_ansi_c.quantize import float_program
from nnkit_ansi_c.row_plan import Head, RowLayer, RowWindow
from nnkit_ansi_c.stripe_values import MARK
from nnkit_ansi_c.stripes import Stripes, head_of, in_stripes


@dataclass
class _Drawn:
    """A network as it grows: nodes, constants, and the value at its end with its channels."""

    nodes: list[NodeProto]
    constants: dict[str, Any]
    value: str
    channels: int

    def add(self, kind: str, inputs: list[str], **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=f"n{len(self.nodes)}", **attributes))
        return name

    def convolution(self, value: str, channels: int, kernel: int, **attributes: Any) -> str:
        weight = f"w{len(self.nodes)}"
        self.constants[weight] = normal(4, channels, kernel, kernel, seed=len(self.nodes))
        return self.add("Conv", [value, weight], kernel_shape=[kernel] * 2, **attributes)


def _grow(draw: st.DrawFn, drawn: _Drawn) -> None:
    """One more layer, or a branch whose arms come together again: a sum, or a concatenation of channels."""
    kernel, stride = draw(st.integers(1, 3)), draw(st.sampled_from([1, 1, 2]))
    pads = [draw(st.integers(0, kernel - 1)) for _ in range(4)]
    window: dict[str, Any] = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": pads}
    kind = draw(st.sampled_from(["conv", "conv", "pool", "relu", "scale", "residual", "arms"]))
    start, channels = drawn.value, drawn.channels
    if kind == "conv":
        dilations = [draw(st.integers(1, 2))] * 2
        drawn.value = drawn.convolution(start, channels, kernel, strides=[stride] * 2, pads=pads, dilations=dilations)
        drawn.channels = 4
    elif kind == "pool":
        drawn.value = drawn.add("MaxPool", [start], ceil_mode=draw(st.integers(0, 1)), **window)
    elif kind == "relu":
        drawn.value = drawn.add("Relu", [start])
    elif kind == "scale":
        drawn.constants[f"s{len(drawn.nodes)}"] = normal(1, channels, 1, 1, seed=len(drawn.nodes))
        drawn.value = drawn.add("Mul", [start, f"s{len(drawn.nodes)}"])
    else:
        strides = {"strides": [stride] * 2}
        long = drawn.convolution(start, channels, 3, pads=[1] * 4, **strides)
        if draw(st.booleans()):
            long = drawn.convolution(drawn.add("Relu", [long]), 4, 3, pads=[1] * 4)
        short = drawn.convolution(start, channels, 1, **strides)
        joined = {"residual": ("Add", 4, {}), "arms": ("Concat", 8, {"axis": 1})}
        operator, drawn.channels, attributes = joined[kind]
        drawn.value = drawn.add(operator, [long, short], **attributes)


@st.composite
def heads(draw: st.DrawFn) -> tuple[Model, int]:
    """Random layers and branches that end in a smaller map, and a classifier; a number of stripes."""
    height, width, channels = draw(st.integers(12, 30)), draw(st.integers(8, 14)), draw(st.integers(1, 3))
    drawn = _Drawn([], {}, "x", channels)
    for _ in range(draw(st.integers(1, 4))):
        _grow(draw, drawn)
    drawn.value = drawn.add("MaxPool", [drawn.value], kernel_shape=[2, 2], strides=[2, 2])
    drawn.nodes.append(helper.make_node("GlobalAveragePool", [drawn.value], ["y"], name="mean"))
    return network(drawn.nodes, {"x": normal(1, channels, height, width)}, drawn.constants), draw(st.integers(2, 4))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(heads())
def test_stripes_compute_the_same_values(case: tuple[Model, int]) -> None:
    model, count = case
    graph = GraphView.of(model)
    assume(all(min(graph.shape(name)) > 0 for node in graph.nodes for name in node.results))  # windows fit their maps
    head = head_of(graph)
    assert head is not None
    inputs = {"x": normal(*model.inputs[0].shape, seed=9)}
    for end in (name for name in head.ends if head.row_counts[name] >= count):
        (expected,) = FloatSession(model, fetch=[end]).run(inputs).values()
        (striped,) = FloatSession(in_stripes(model, end, count), fetch=[end]).run(inputs).values()
        np.testing.assert_allclose(striped, expected, rtol=0, atol=1e-5 * max(1.0, float(np.abs(expected).max())))


def test_stripes_end_where_all_arms_have_come_together(shared_dir: Path) -> None:
    """A ResNet-8 by hand: behind its first convolution, and behind the sum of each block that leaves a map."""
    graph = GraphView.of(import_onnx(shared_dir / "nets" / "c_resnet8.onnx").model)
    head = head_of(graph)
    assert head is not None
    sums = [graph.consumers[node.output][0].output for node in graph.nodes if node.is_op("Add")]
    assert [*head.ends] == [next(node.output for node in graph.nodes if node.is_op("Relu")), *sums]


def test_rows_that_two_arms_need_are_the_union_of_both() -> None:
    """Rows 4 and 5 of the sum of x and two windows of 3 rows over it: x's rows 2 to 7, of which the sum reads two."""
    layers = (
        RowLayer(("x",), "a", RowWindow(3, 1, 1), 1),
        RowLayer(("a",), "b", RowWindow(3, 1, 1), 1),
        RowLayer(("b", "x"), "y", None, 1),
    )
    heights = dict.fromkeys(("x", "a", "b", "y"), 10)
    head = Head("x", layers, heights, dict.fromkeys(heights, 7), frozenset({"y"}))
    assert head.ends == ("y",)
    made = {
        step.layer.output: (step.made, step.read, step.pad_above, step.pad_below) for step in head.stripe("y", (4, 6))
    }
    assert made == {
        "a": ((3, 7), (2, 8), 0, 0),
        "b": ((4, 6), (3, 7), 0, 0),
        "y": ((4, 6), (4, 6), 0, 0),
    }
    at_the_top = {step.layer.output: (step.made, step.read, step.pad_above) for step in head.stripe("y", (0, 2))}
    assert at_the_top == {"a": ((0, 3), (0, 4), 1), "b": ((0, 2), (0, 3), 1), "y": ((0, 2), (0, 2), 0)}
    assert head.work("y", 1) == 30
    assert head.work("y", 5) == 30 + 2 * 4  # of a, three inner stripes compute two rows more, the outer one


def test_a_real_network_fits_into_less(tmp_path: Path, shared_dir: Path) -> None:
    model = import_onnx(shared_dir / "nets" / "b_mbv1_025.onnx").model
    whole = AnsiCLowered.of(model)
    before = arena_bytes(whole.graph)
    assert before == 221_184
    lowered = AnsiCLowered.of(model, Stripes(limit_bytes=150_000))
    assert arena_bytes(lowered.graph) <= 150_000
    program = float_program(lowered.graph, NO_STATISTICS, "net")
    emit_library(Network.of(program), AnsiCOptions(), tmp_path)
    inputs = {model.inputs[0].name: normal(*model.inputs[0].shape)}
    (expected,) = FloatSession(model).run(inputs).values()
    (found,) = outputs(tmp_path, program, inputs, SANITIZERS).values()
    np.testing.assert_allclose(
        found.reshape(-1), expected.reshape(-1), rtol=0, atol=2e-5 * float(np.abs(expected).max())
    )


def test_a_limit_that_holds_leaves_the_network_whole(shared_dir: Path) -> None:
    model = import_onnx(shared_dir / "nets" / "d_dscnn.onnx").model
    plain = [node.name for node in AnsiCLowered.of(model).graph.nodes]
    assert [node.name for node in AnsiCLowered.of(model, Stripes(limit_bytes=64_000)).graph.nodes] == plain
    assert [node.name for node in AnsiCLowered.of(model, Stripes(count=1, limit_bytes=9)).graph.nodes] == plain


@pytest.mark.parametrize(("network", "kib"), [("b_mbv1_025", 24), ("c_resnet8", 30)])
def test_integers_in_stripes_are_the_same(tmp_path: Path, shared_dir: Path, network: str, kib: int) -> None:
    """Built from a recipe whose arena is too small for the network in one piece: every layer is compared, too."""
    onnx = shared_dir / "nets" / f"{network}.onnx"
    (tmp_path / "inputs").mkdir()
    shape = import_onnx(onnx).model.inputs[0].shape
    for index in range(3):
        np.save(tmp_path / f"inputs/{index}.npy", normal(*shape, seed=index))
    text = (
        f"nnkit: 1\nname: b\nmodel:\n  path: '{onnx}'\n  inputs:\n"
        f"    {import_onnx(onnx).model.inputs[0].name}: {{calibration: {{images: 'inputs/*.npy'}}}}\n"
        f"targets:\n  ansi_c@whole: {{precision: int8}}\n  ansi_c@small: {{precision: int8, arena: {kib}KiB}}\n"
        "verify: {images: 'inputs/*.npy', count: 2}\n"
    )
    (tmp_path / "recipe.yaml").write_text(text)
    outputs_of = {}
    for target in ("ansi_c@whole", "ansi_c@small"):
        folder = pipeline.run(make_build(tmp_path / "recipe.yaml", target=target), tmp_path / "out").folder
        report = json.loads((folder / "report.json").read_text())
        assert report["status"] == "ok"
        (verdict,) = report["verify"]["program_vs_artifact"]
        assert verdict["mismatches"] == 0
        layers = [layer["name"] for layer in report["layers"]]
        assert any(MARK in name for name in layers) == (target == "ansi_c@small")
        assert (report["details"]["arena_bytes"] <= kib << 10) == (target == "ansi_c@small")
        built = open_build(folder)
        outputs_of[target] = [
            np.load(path) for name in built.program.outputs for path in sorted(folder.glob(f"verify/?_{name}.npy"))
        ]
    for whole, small in zip(outputs_of["ansi_c@whole"], outputs_of["ansi_c@small"], strict=True):
        np.testing.assert_array_equal(small, whole)

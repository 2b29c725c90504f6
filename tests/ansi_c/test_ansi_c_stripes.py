"""The first layers in stripes of rows: the same values as whole, in less memory. ONNX Runtime is the truth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from ansi_c_library import NO_STATISTICS, SANITIZERS, outputs
from hypothesis import HealthCheck, given, settings
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
from nnkit_ansi_c.stripes import MARK, Stripes, ends_of, head_of, in_stripes


@st.composite
def heads(draw: st.DrawFn) -> tuple[Model, int]:
    """A chain of random windows and activations that ends in a smaller map, and a classifier; a number of stripes."""
    height, width, channels = draw(st.integers(12, 30)), draw(st.integers(8, 14)), draw(st.integers(1, 3))
    given = {"x": normal(1, channels, height, width)}
    constants: dict[str, Any] = {}
    nodes: list[NodeProto] = []
    value = "x"
    for index in range(draw(st.integers(1, 4))):
        name = f"v{index}"
        kernel, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 2))
        stride = draw(st.sampled_from([1, 1, 2]))
        pads = [draw(st.integers(0, kernel - 1)) for _ in range(4)]
        kind = draw(st.sampled_from(["conv", "conv", "pool", "relu", "scale"]))
        window: dict[str, Any] = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": pads}
        if kind == "conv":
            constants[f"w{index}"] = normal(4, channels, kernel, kernel, seed=index)
            channels = 4
            dilations = [dilation] * 2
            nodes.append(helper.make_node("Conv", [value, f"w{index}"], [name], dilations=dilations, **window))
        elif kind == "pool":
            nodes.append(helper.make_node("MaxPool", [value], [name], ceil_mode=draw(st.integers(0, 1)), **window))
        elif kind == "relu":
            nodes.append(helper.make_node("Relu", [value], [name]))
        else:
            constants[f"s{index}"] = normal(1, channels, 1, 1, seed=index)
            nodes.append(helper.make_node("Mul", [value, f"s{index}"], [name]))
        value = name
    nodes.append(helper.make_node("MaxPool", [value], ["end"], kernel_shape=[2, 2], strides=[2, 2]))
    nodes.append(helper.make_node("GlobalAveragePool", ["end"], ["y"]))
    for number, node in enumerate(nodes):
        node.name = f"n{number}"
    return network(nodes, given, constants), draw(st.integers(2, 4))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(heads())
def test_stripes_compute_the_same_values(case: tuple[Model, int]) -> None:
    model, count = case
    graph = GraphView.of(model)
    links = head_of(graph)
    if not ends_of(graph, links):  # a window in the padding alone ends the chain
        return
    depth, rows = ends_of(graph, links)[-1]
    if rows < count:
        return
    inputs = {"x": normal(*model.inputs[0].shape, seed=9)}
    end = links[depth - 1].node.output
    (expected,) = FloatSession(model, fetch=[end]).run(inputs).values()
    (found,) = FloatSession(in_stripes(model, depth, count), fetch=[end]).run(inputs).values()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * max(1.0, float(np.abs(expected).max())))


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


def test_integers_in_stripes_are_the_same(tmp_path: Path, shared_dir: Path) -> None:
    """Built from a recipe whose arena is too small for the network in one piece: every layer is compared, too."""
    onnx = shared_dir / "nets" / "b_mbv1_025.onnx"
    (tmp_path / "inputs").mkdir()
    shape = import_onnx(onnx).model.inputs[0].shape
    for index in range(3):
        np.save(tmp_path / f"inputs/{index}.npy", normal(*shape, seed=index))
    text = (
        f"nnkit: 1\nname: b\nmodel:\n  path: '{onnx}'\n  inputs:\n"
        f"    {import_onnx(onnx).model.inputs[0].name}: {{calibration: {{images: 'inputs/*.npy'}}}}\n"
        "targets:\n  ansi_c@whole: {precision: int8}\n  ansi_c@small: {precision: int8, arena: 24KiB}\n"
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
        assert (report["details"]["arena_bytes"] <= 24 << 10) == (target == "ansi_c@small")
        built = open_build(folder)
        outputs_of[target] = [
            np.load(path) for name in built.program.outputs for path in sorted(folder.glob(f"verify/?_{name}.npy"))
        ]
    for whole, small in zip(outputs_of["ansi_c@whole"], outputs_of["ansi_c@small"], strict=True):
        np.testing.assert_array_equal(small, whole)

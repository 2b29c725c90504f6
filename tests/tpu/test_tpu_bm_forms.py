"""What ends the compiler for the BM chips as it is written elsewhere: the chip model against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from tpu_build import built, refuted
from tpu_net import ROWS, Net

from nnkit.calibrate.stats import ValueRange
from nnkit_tpu.chip_forms import for_chip
from nnkit_tpu.chip_model import run_on_chip_model
from nnkit_tpu.compile import CompileOptions, compile_graph
from nnkit_tpu.lowering import lower
from nnkit_tpu.program import TpuLayerNorm, TpuReshape, TpuSlice, TpuSoftmax
from nnkit_tpu.quantize import Precision, graph_of, other_modes, table_ranges, to_program
from nnkit_tpu.toolchain import Toolchain


def _style(net: Net) -> list[str]:
    """Halves of a product as channels of an image, and rows without scale or bias behind a reshape."""
    count, width = ROWS[-2:]
    product = net("MatMul", "rows", net.normal(width, 2 * width), to="product")
    image = net("Reshape", product, net.ints(1, count, 2 * width, 1), to="image")
    halves = [
        net("Slice", image, *(net.ints(number) for number in (start, start + width, 2)), to=f"half{start}")
        for start in (0, width)
    ]
    rows = net("Slice", image, net.ints(1), net.ints(count), net.ints(1), to="some_rows")
    tanh = net("Tanh", product, to="tanh")
    folded = net("Reshape", tanh, net.ints(1, count, 2, width), to="folded")
    scale = net.constant(np.full(width, 1.5, np.float32))
    normal = net("LayerNormalization", folded, scale, to="normal", axis=-1)
    plain = net("LayerNormalization", folded, net.constant(np.ones(width, np.float32)), to="plain", axis=-1)
    return [*halves, rows, normal, plain]


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688"])
def test_what_the_compiler_would_fail_on_is_as_in_onnx_runtime(
    tpu_toolchain: Toolchain, tmp_path: Path, chip: str
) -> None:
    net = Net()
    outputs = _style(net)
    model = net.model(outputs)
    graph = for_chip(lower(model, "net", chip), chip, "F16")
    assert all(
        not isinstance(graph.producer(op.inputs[0]), TpuReshape) for op in graph.ops if isinstance(op, TpuSlice)
    )
    assert all(op.scale is not None and op.bias is not None for op in graph.ops if isinstance(op, TpuLayerNorm))
    compiled = compile_graph(tpu_toolchain, graph, CompileOptions(chip=chip, mode="F16"), tmp_path)
    given = {spec.name: np.random.default_rng(3).normal(0, 1, spec.shape).astype(np.float32) for spec in model.inputs}
    session = onnxruntime.InferenceSession(model.proto().SerializeToString(), providers=["CPUExecutionProvider"])
    expected = dict(zip(outputs, session.run(outputs, given), strict=True))
    onto = {compiled.locations[name]: value for name, value in given.items()}
    computed = run_on_chip_model(tpu_toolchain, compiled.model, chip, onto)
    for output, values in zip(outputs, computed.values(), strict=True):
        true = expected[output]
        assert np.abs(values.reshape(true.shape) - true).max() < 0.004 * np.abs(true).max(), output


def _distances(net: Net) -> tuple[list[str], tuple[str, ...]]:
    """Two times four sides of twelve and ten places, each as a distribution over eight distances, as detectors have
    them; and what a swap that is read twice, or of other axes, leaves as it is."""
    swapped, outputs = [], []
    for index in range(3):
        sides = net("Conv", "x", net.normal(32, 8, 1, 1), to=f"sides{index}")
        each = net("Reshape", sides, net.ints(1, 4, 8, 120))
        swapped.append(net("Transpose", each, to=f"swapped{index}", perm=[0, 2, 1, 3]))
        outputs.append(net("Softmax", swapped[-1], axis=1, to=f"distribution{index}"))
    twice = net("Add", outputs.pop(), swapped[-1], to="read_twice")
    turned = net("Softmax", net("Transpose", "x", perm=[0, 3, 1, 2], to="turned"), axis=1)
    return [*outputs, twice, turned], (swapped[-1], "turned")


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688"])
def test_distributions_over_channels_that_were_rows_are_as_in_onnx_runtime(
    tpu_toolchain: Toolchain, tmp_path: Path, chip: str
) -> None:
    """As they are written elsewhere they come into a layer group, and are wrong by up to 0.98."""
    net = Net()
    outputs, left = _distances(net)
    model = net.model(outputs)
    graph = for_chip(lower(model, "net", chip), chip, "INT8")
    axes = {op.output: op.axis for op in graph.ops if isinstance(op, TpuSoftmax)}
    assert sorted(axes.values()) == [1, 1, 2, 2]
    assert set(left) <= set(graph.tensors)
    given = {"x": np.random.default_rng(3).normal(0, 1, model.inputs[0].shape).astype(np.float32)}
    session = onnxruntime.InferenceSession(model.proto().SerializeToString(), providers=["CPUExecutionProvider"])
    expected = dict(zip(outputs, session.run(outputs, given), strict=True))
    ranges = {name: ValueRange(-8.0, 8.0, -8.0, 8.0) for name in graph.tensors}
    ranges |= dict.fromkeys(axes, ValueRange(0.0, 1.0, 0.0, 1.0))
    program = to_program(graph, ranges, Precision(chip, "INT8"))
    ranges = table_ranges(graph_of(program), ranges, chip)
    modes = other_modes(program, "INT8")
    how = CompileOptions(chip=chip)
    compiled = compile_graph(tpu_toolchain, graph_of(program), how, tmp_path, ranges=ranges, modes=modes)
    computed = run_on_chip_model(tpu_toolchain, compiled.model, chip, {compiled.locations["x"]: given["x"]})
    for output, values in zip(outputs, computed.values(), strict=True):
        limit = 0.04 if output in axes else 3 * 8 / 127  # steps: of the image, the convolution, the sum
        assert np.abs(values.reshape(expected[output].shape) - expected[output]).max() < limit, output


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688"])
def test_quotients_by_a_root_are_as_in_onnx_runtime(tpu_toolchain: Toolchain, tmp_path: Path, chip: str) -> None:
    """As they are written elsewhere the compiler multiplies by one over the root, clipped to the range of roots."""
    net = Net()
    root = net("Sqrt", net("Sigmoid", "x", to="variance"), to="root")
    model = net.model([net("Div", "x", root, to="quotient")])
    given = {"x": np.random.default_rng(3).uniform(0.5, 2.0, model.inputs[0].shape).astype(np.float32)}
    session = onnxruntime.InferenceSession(model.proto().SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, given)
    graph = for_chip(lower(model, "net", chip), chip, "INT8")
    ranges = dict.fromkeys(graph.tensors, ValueRange(0.0, 1.0, 0.0, 1.0))
    ranges |= dict.fromkeys(("x", "quotient"), ValueRange(0.0, 4.0, 0.0, 4.0))
    program = to_program(graph, ranges, Precision(chip, "INT8"))
    how, modes = CompileOptions(chip=chip), other_modes(program, "INT8")
    ranges = table_ranges(graph_of(program), ranges, chip)
    compiled = compile_graph(tpu_toolchain, graph_of(program), how, tmp_path, ranges=ranges, modes=modes)
    (computed,) = run_on_chip_model(
        tpu_toolchain, compiled.model, chip, {compiled.locations["x"]: given["x"]}
    ).values()
    assert np.abs(computed.reshape(expected.shape) / expected - 1).max() < 0.02


@pytest.mark.parametrize("options", ["chip: bm1684x", "chip: bm1688, precision: f16"])
def test_a_normalisation_behind_transpositions_around_a_reshape_is_built(
    tpu_toolchain: object, tmp_path: Path, options: str
) -> None:
    """As between the stages of a CAFormer: tokens become an image again, whose channels are normalised."""
    net = Net()
    image = net("Conv", "x", net.normal(32, 8, 1, 1))
    tokens = net("Transpose", net("Reshape", image, net.ints(1, 32, 120)), perm=[0, 2, 1])
    mixed = net("Add", tokens, net("MatMul", tokens, net.normal(32, 32)))
    again = net("Reshape", net("Transpose", mixed, perm=[0, 2, 1]), net.ints(1, 32, 12, 10))
    rows = net("Transpose", again, perm=[0, 2, 3, 1])
    normal = net("LayerNormalization", rows, net.positive(32), axis=-1)
    model = net.model([net("Conv", net("Transpose", normal, perm=[0, 3, 1, 2]), net.normal(16, 32, 3, 3), to="out")])
    report = built(model, options, tmp_path)
    assert report["status"] == "ok"
    assert not refuted(report)

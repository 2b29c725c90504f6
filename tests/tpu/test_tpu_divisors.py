"""Quotients whose divisor a small number keeps from zero: the chip model against ONNX Runtime, zeros included."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper
from tpu_build import built, refuted
from tpu_net import ROWS, Net

from nnkit.calibrate.stats import ValueRange
from nnkit.graph import Model
from nnkit.program.inputs import quantized_inputs
from nnkit.samples import Sample
from nnkit.simulate import simulate
from nnkit_tpu.chip_forms import for_chip
from nnkit_tpu.chip_model import run_on_chip_model
from nnkit_tpu.compile import CompileOptions, compile_graph
from nnkit_tpu.divisors import LEAST, guarded_divisors
from nnkit_tpu.lowering import lower
from nnkit_tpu.program import Mode, TpuBinary
from nnkit_tpu.quantize import Precision, graph_of, other_modes, table_ranges, to_program
from nnkit_tpu.toolchain import Toolchain

WIDTH = 8


def _attention(net: Net, added: float) -> str:
    """Rows by weights that are not negative; the last column is what the others are divided by."""
    weights = net.constant(np.abs(net.random.normal(0, 0.3, (ROWS[-1], WIDTH + 1))))
    product = net("MatMul", net("Relu", "rows"), weights, to="product")
    parts = [
        net("Slice", product, net.ints(start), net.ints(stop), net.ints(2))
        for start, stop in ((0, WIDTH), (WIDTH, WIDTH + 1))
    ]
    return net("Div", parts[0], net("Add", parts[1], net.constant(added), to="divisor"), to="quotient")


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688"])
@pytest.mark.parametrize("mode", ["INT8", "F16"])
def test_zeros_by_nearly_zero_are_zeros(tpu_toolchain: Toolchain, tmp_path: Path, chip: str, mode: Mode) -> None:
    net = Net()
    model = net.model([_attention(net, 1e-9)])
    rows = np.random.default_rng(3).normal(0, 1, ROWS).astype(np.float32)
    rows[:, 2] = -1.0  # nothing is left of it
    session = onnxruntime.InferenceSession(model.proto().SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"rows": rows})
    assert not expected[:, 2].any()
    graph = for_chip(lower(model, "net", chip), chip, mode)
    ranges = dict.fromkeys(graph.tensors, ValueRange(0.0, 8.0, 0.0, 8.0))
    ranges |= {"rows": ValueRange(-3.0, 3.0, -3.0, 3.0), "quotient": ValueRange(0.0, 4.0, 0.0, 4.0)}
    program = to_program(graph, ranges, Precision(chip, mode))
    table = table_ranges(graph_of(program), ranges, chip) if mode == "INT8" else None
    how, modes = CompileOptions(chip=chip, mode=mode), other_modes(program, mode)
    compiled = compile_graph(tpu_toolchain, graph_of(program), how, tmp_path, ranges=table, modes=modes, search=False)
    (computed,) = run_on_chip_model(tpu_toolchain, compiled.model, chip, {compiled.locations["rows"]: rows}).values()
    computed = computed.reshape(expected.shape)
    assert not computed[:, 2].any()
    simulated = simulate(program, quantized_inputs(program, Sample("rows", {"rows": rows})))["quotient"]
    last_bits = 4 * 2.0**-11 * expected.max()  # input, sums of both, and quotient rounded
    assert np.abs(computed - simulated).max() < last_bits
    limit = _rounded_to_8_bits(rows, _weights(model)) if mode == "INT8" else last_bits
    assert np.all(np.abs(computed - expected) <= limit)


def _weights(model: Model) -> NDArray[np.float32]:
    arrays = map(numpy_helper.to_array, model.proto().graph.initializer)
    return next(array for array in arrays if array.shape == (ROWS[-1], WIDTH + 1))


def _rounded_to_8_bits(rows: NDArray[np.float32], weights: NDArray[np.float32]) -> NDArray[np.float64]:
    """What a quotient may be off where the input (up to 3), what is left of it, and both products (up to 8) are."""
    x = np.maximum(rows, 0.0).astype(np.float64)
    read = (3.0 / 127 + 8.0 / 127) / 2 * weights.sum(axis=0)
    off = 8.0 / 127 / 2 + read + x.sum(axis=-1, keepdims=True) * weights.max() / 127 / 2
    product = x @ weights
    quotient = product[..., :WIDTH] / np.maximum(product[..., WIDTH:], 1e-9)
    return (off[..., :WIDTH] + quotient * off[..., WIDTH:]) / np.maximum(
        product[..., WIDTH:] - off[..., WIDTH:], 1e-9
    )


@pytest.mark.parametrize(("added", "number"), [(1e-9, LEAST["F16"]), (5e-4, 5e-4), (0.5, None), (-1e-5, None)])
def test_only_small_numbers_are_for_the_sake_of_zeros(added: float, number: float | None) -> None:
    net = Net()
    graph = lower(net.model([_attention(net, added)]), "net", "bm1684x")
    guarded = guarded_divisors(graph, "INT8")
    lifted = {op.output: op for op in guarded.ops if "hp" in op.tags}
    assert set(lifted) == (set() if number is None else {"product", "divisor"})
    if number is not None:
        divisor = lifted["divisor"]
        assert isinstance(divisor, TpuBinary)
        assert divisor.constant is not None
        assert divisor.constant.tolist() == [np.float32(number)]
    assert guarded_divisors(graph, "BF16") is graph


def test_on_the_cv18xx_what_is_divided_is_in_bf16_with_the_number_as_it_is(
    tpu_toolchain: object, tmp_path: Path
) -> None:
    """In INT8 the number vanished, and a quotient by zero was as large as the chip's table says."""
    net = Net()
    graph = for_chip(lower(net.model([_attention(net, 1e-15)]), "net", "cv181x"), "cv181x", "INT8")
    lifted = {op.output: op for op in graph.ops if "hp" in op.tags}
    assert set(lifted) == {"product", "divisor"}
    divisor = lifted["divisor"]
    assert isinstance(divisor, TpuBinary)
    assert divisor.constant is not None
    assert divisor.constant.tolist() == [np.float32(1e-15)]
    net = Net()
    report = built(net.model([_attention(net, 1e-15)]), "chip: cv181x", tmp_path, largest=1.0)
    assert report["status"] == "ok"
    assert not refuted(report)


@pytest.mark.parametrize("options", ["chip: bm1684x", "chip: bm1688, precision: f16", "chip: cv181x"])
def test_vectors_of_length_one(tpu_toolchain: Toolchain, tmp_path: Path, options: str) -> None:
    """As descriptors end: divided by their length, or by next to nothing where that is more; rows of zeros, too."""
    net = Net()
    features = net("Relu", net("MatMul", "rows", net.normal(20, 16)))
    length = net("ReduceL2", features, net.ints(-1), keepdims=1)
    guarded = net("Clip", length, net.constant(np.array(1e-12)))
    unit = net("Div", features, guarded, to="unit")
    report = built(net.model([unit]), options, tmp_path)
    assert refuted(report) == []
    assert report["status"] == "ok"
    assert report["verify"]["float_vs_program"]["cosine"] > 0.999

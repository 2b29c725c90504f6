"""Normalisations of rows whose spread is small beside their mean, which the chip adds up in 16 bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpu_build import built, refuted
from tpu_net import Net

from nnkit.graph import Model
from nnkit.simulate import simulate
from nnkit_tpu.exactness import amplified, largest_difference, largest_on, not_as_simulated
from nnkit_tpu.lowering import lower
from nnkit_tpu.program import TpuActivation, TpuLayerNorm, TpuOp
from nnkit_tpu.quantize import Precision, to_program


def _normalised(mean: float, spread: float) -> Model:
    net = Net()
    rows = net("Add", net("Mul", "rows", net.constant(spread)), net.constant(mean))
    scale, bias = net.constant(np.full(20, 1.5)), net.constant(np.zeros(20))
    return net.model([net("LayerNormalization", rows, scale, bias, axis=-1, to="normal")])


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688"])
@pytest.mark.parametrize(("mean", "spread"), [(10.0, 0.05), (0.0, 4e-7)])
def test_a_mean_that_is_off_in_its_last_bits_refutes_no_build(
    tpu_toolchain: object, tmp_path: Path, chip: str, mean: float, spread: float
) -> None:
    """Beside a small spread, and of values so near to zero that F16 has few numbers for them."""
    report = built(_normalised(mean, spread), f"chip: {chip}, precision: f16", tmp_path)
    assert report["status"] == "ok"
    assert not refuted(report)


def _layer(mean: float, spread: float) -> tuple[TpuOp, np.ndarray]:
    """The normalisation in F16, and rows that it may read."""
    program = to_program(lower(_normalised(mean, spread), "net"), {}, Precision("bm1684x", "F16"))
    (op,) = [op for op in program.ops if isinstance(op, TpuLayerNorm)]
    return op, (mean + spread * np.random.default_rng(1).normal(0, 1, (6, 20))).astype(np.float16)


def test_bounds_follow_from_what_is_read() -> None:
    op, rows = _layer(10.0, 0.05)
    assert isinstance(op, TpuLayerNorm)
    off = 10 * 2.0**-8
    moved = rows.astype(np.float64) - rows.mean(axis=-1, keepdims=True, dtype=np.float64)
    given = [1.5 * m / np.sqrt((m * m).mean(axis=-1, keepdims=True) + op.epsilon) for m in (moved, moved - off)]
    bound = np.asarray(amplified(op, [rows]))
    assert bound.shape == rows.shape
    assert np.all(np.abs(given[0] - given[1]) <= bound * 1.01)
    assert bound.min() > 0.5


def test_of_rows_about_zero_little_more_is_allowed() -> None:
    """A build that is wrong there is refuted as before."""
    op, rows = _layer(0.0, 1.0)
    bound = np.asarray(amplified(op, [rows])) + largest_difference(op, "bm1684x")
    assert bound.max() < 0.02


def test_a_release_is_right_where_networks_within_the_bounds_are_as_far() -> None:
    """Behind a normalisation of nearly equal values, a tenth of the outputs is little."""
    program = to_program(lower(_normalised(10.0, 0.05), "net"), {}, Precision("bm1684x", "F16"))
    given = {"rows": np.random.default_rng(1).normal(0, 1, (6, 20)).astype(np.float32)}
    expected = simulate(program, given)["normal"].astype(np.float64)
    for by, is_right in ((0.2, True), (3.0, False)):
        moved = {"normal": expected + by * np.sign(expected)}
        assert np.linalg.norm(moved["normal"] - expected) > 0.1 * np.linalg.norm(expected)
        assert (not_as_simulated(program, "bm1684x", [given], [moved]) == "") == is_right
    far = to_program(lower(_normalised(0.0, 1.0), "net"), {}, Precision("bm1684x", "F16"))
    expected = simulate(far, given)["normal"].astype(np.float64)
    assert "are not as simulated" in not_as_simulated(far, "bm1684x", [given], [{"normal": expected * 1.2}])


@pytest.mark.parametrize(("largest", "bound"), [(1.5, 2.0 * 2.0**-9), (20.0, 20.0 * 2.0**-9)])
def test_last_bits_are_those_of_the_largest_value_also_beyond_what_calibration_saw(
    largest: float, bound: float
) -> None:
    """A unit in the last place of 20 in F16 is 2^-6, which is more than all that 2 lets differ."""
    op = TpuActivation(name="y", inputs=("x",), output="y", function="hard_swish", mode="F16", magnitude=2.0)
    read = np.array([-1.0, 0.5, largest], np.float16)
    assert largest_on(op, [read], read, "bm1684x") == bound

"""Adaptive rounding against brute force over all roundings, and what spilling to files must not change."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from nnkit.calibrate import calibrate
from nnkit.distance import distance
from nnkit.program import Window
from nnkit.program.affine import AffineConv
from nnkit.quantize.affine import AdaRound, AffineScheme, RoundingReport, outputs_of, quantize_affine
from nnkit.quantize.affine.adaround import Moments, adapt, relaxed
from nnkit.quantize.affine.quantize import Corrections
from nnkit.quantize.affine.spool import Spool
from nnkit.quantize.lowered import LoweredLayers

from .test_affine_quantize import images, network


def moments_for(x: NDArray[np.float32], real: NDArray[np.float64]) -> Moments:
    """Of a 1x1 convolution with `real` weights [O, I]; x [N, I] are the quantised inputs, targets on them."""
    moments = Moments(1, x.shape[1], len(real))
    targets = (x @ real.T).astype(np.float32)
    moments.add(x[:, :, None, None], targets[:, :, None, None], Window(1, 1), 0.0)
    return moments


@pytest.mark.parametrize("centred", [False, True])
def test_most_of_what_the_best_of_all_roundings_gains(centred: bool) -> None:
    inputs, there, gained = 9, 0.0, 0.0
    every = np.array(list(product((0.0, 1.0), repeat=inputs)))
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x = (rng.normal(0, 1, (400, inputs)) @ rng.normal(0, 1, (inputs, inputs)) + 1.0).astype(np.float32)
        weight, scales = rng.uniform(-20, 20, (3, inputs)), np.array([0.1, 0.02, 1.0])
        moments = moments_for(x, weight * scales[:, None])
        found, _, ratio = adapt(weight[:, :, None, None], scales, moments, 200, centred=centred)
        found = found.reshape(3, inputs)
        assert set(np.unique(found - np.floor(weight))) <= {0.0, 1.0}
        before = after = 0.0
        for row in range(3):
            off = x.astype(np.float64) @ (np.floor(weight[row]) + every - weight[row]).T
            best = float((off.var(axis=0) if centred else np.square(off).mean(axis=0)).min())
            nearest, ours = (_error(x, q - weight[row], centred) for q in (np.rint(weight[row]), found[row]))
            assert ours <= nearest * (1 + 1e-6)
            there, gained = there + (nearest - best) / nearest, gained + (nearest - ours) / nearest
            before, after = before + nearest * scales[row] ** 2, after + ours * scales[row] ** 2
        assert ratio == pytest.approx(after / before, rel=1e-3)
    assert there > 6.0  # of 18 rows: there is something to gain
    assert gained > 0.8 * there  # a search, not a proof


def _error(x: NDArray[np.float32], off: NDArray[np.float64], centred: bool) -> float:
    values = x.astype(np.float64) @ off
    return float(np.var(values) if centred else np.mean(np.square(values)))


def test_where_weights_do_not_interact_the_search_ends_at_the_nearest() -> None:
    """The error of each weight alone is least at the nearest whole number, and the regulariser does not move it."""
    weight = np.array([[0.2, 1.4, -0.3, 2.7, -1.8, 3.0]])
    form = np.eye(6)
    np.testing.assert_array_equal(relaxed(weight, form, weight @ form, 500), np.rint(weight))


def test_without_steps_it_ends_where_no_single_flip_helps() -> None:
    gained = 0.0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x = (rng.normal(0, 1, (400, 12)) @ rng.normal(0, 1, (12, 12)) + 1.0).astype(np.float32)
        weight = rng.uniform(-20, 20, (3, 12))
        moments = moments_for(x, weight * 0.1)
        found, flips, _ = adapt(weight[:, :, None, None], np.full(3, 0.1), moments, 0, centred=False)
        rows = found.reshape(3, 12)
        assert set(np.unique(rows - np.floor(weight))) <= {0.0, 1.0}
        assert flips > 0
        for row in range(3):
            ours = _error(x, rows[row] - weight[row], False)
            nearest = _error(x, np.rint(weight[row]) - weight[row], False)
            gained += (nearest - ours) / nearest
            for index in range(12):
                other = rows[row].copy()
                other[index] = 2 * np.floor(weight[row, index]) + 1 - other[index]
                assert _error(x, other - weight[row], False) >= ours * (1 - 1e-4)
    assert gained > 4.0  # of 18 rows


def test_groups_are_searched_apart() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(0, 1, (2, 4, 10, 10)).astype(np.float32)
    weight, scales = rng.uniform(-9, 9, (4, 1, 3, 3)), np.full(4, 0.1)
    window = Window(3, 3, 1, 1, 1, 1, 1, 1)
    both = Moments(4, 9, 1)
    both.add(x, np.zeros((2, 4, 10, 10), np.float32), window, 0.0)
    whole, _, _ = adapt(weight, scales, both, 50, centred=False)
    for channel in range(4):
        alone = Moments(1, 9, 1)
        alone.add(x[:, channel : channel + 1], np.zeros((2, 1, 10, 10), np.float32), window, 0.0)
        part, _, _ = adapt(weight[channel : channel + 1], scales[:1], alone, 50, centred=False)
        assert np.array_equal(part, whole[channel : channel + 1])


def rounded(count: int = 32, **options: object) -> object:
    model, x = network(21, ["conv", "depthwise", "conv", "prelu"]), {"x": images(1, count)}
    stats = calibrate(model, {"x": list(x["x"])}, {}, method="mse")
    scheme = AffineScheme(per_channel=False)
    return model, quantize_affine(LoweredLayers.of(model), stats, scheme, Corrections(samples=x, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("steps", [0, 100])
def test_per_tensor_weights_gain_on_unseen_inputs(steps: int) -> None:
    model, plain = rounded()  # type: ignore[misc]
    reports: list[RoundingReport] = []
    _, better = rounded(adaround=AdaRound(steps), on_rounding=reports.append)  # type: ignore[misc]
    x = {"x": images(77, 64)}
    from nnkit.quantize.affine import float_outputs

    reference = float_outputs(model, x)
    ratios = [distance(outputs_of(p, x)[n], reference[n]).sqnr_db for p in (plain, better) for n in reference]
    assert ratios[1] > ratios[0]
    assert [report.layer for report in reports] == [op.name for op in better.ops if isinstance(op, AffineConv)]
    assert all(0.0 < report.error_ratio <= 1.0 + 1e-9 for report in reports)


def test_same_steps_same_weights_and_files_change_nothing() -> None:
    _, one = rounded(adaround=AdaRound(20))  # type: ignore[misc]
    _, two = rounded(adaround=AdaRound(20), memory_bytes=0)  # type: ignore[misc]
    for a, b in zip(one.ops, two.ops, strict=True):
        if isinstance(a, AffineConv):
            assert np.array_equal(a.weight, b.weight)
            assert np.array_equal(a.bias, b.bias)


def test_beyond_its_seconds_layers_are_rounded_to_the_nearest() -> None:
    _, plain = rounded()  # type: ignore[misc]
    _, limited = rounded(adaround=AdaRound(20, seconds=0.0))  # type: ignore[misc]
    for a, b in zip(plain.ops, limited.ops, strict=True):
        if isinstance(a, AffineConv):
            assert np.array_equal(a.weight, b.weight)


def test_one_that_harms_held_out_inputs_is_undone() -> None:
    model = network(21, ["conv", "conv"])
    x = images(1, 8)
    stats = calibrate(model, {"x": list(x)}, {}, method="mse")
    scheme = replace(AffineScheme(), bias_correction=False)
    # One almost constant sample to learn from, others to be judged on.
    program = quantize_affine(
        LoweredLayers.of(model),
        stats,
        scheme,
        Corrections(samples={"x": x[:1] * 1e-3}, held_out={"x": x}, adaround=AdaRound(20)),
    )
    plain = quantize_affine(LoweredLayers.of(model), stats, scheme)
    assert "undone" in program.notes[-1]
    assert "20 steps" in program.notes[-1]
    for a, b in zip(plain.ops, program.ops, strict=True):
        if isinstance(a, AffineConv):
            assert np.array_equal(a.weight, b.weight)


def test_spool_keeps_its_budget_and_cleans_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Spool(1000) as spool:
        for part in range(10):
            spool.put("v", part, np.full(50, part, np.float64))  # 400 bytes each
            assert spool.held_bytes <= 1000
        assert [float(spool.get("v", part)[0]) for part in range(10)] == list(range(10))
        spool.put("v", 9, np.zeros(1))
        assert spool.get("v", 9).shape == (1,)
        assert any(tmp_path.rglob("*.npy"))
        for part in range(10):
            spool.drop("v", part)
        assert spool.held_bytes == 0
        assert not any(tmp_path.rglob("*.npy"))
    assert not any(tmp_path.iterdir())

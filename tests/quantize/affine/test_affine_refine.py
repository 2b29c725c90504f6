"""Refined ranges: low ends against brute force over the additions themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from exact_session import exact_session
from numpy.typing import NDArray
from onnx import helper

from nnkit.calibrate import calibrate
from nnkit.graph import Model
from nnkit.quantize.affine import AffineScheme, float_outputs, outputs_of, qdq_model, quantize_affine
from nnkit.quantize.affine.build import choose_tensors, split_pools
from nnkit.quantize.affine.quantize import Corrections
from nnkit.quantize.affine.refine import SHARES, refined_tensors
from nnkit.quantize.judge import outputs_sqnr_db
from nnkit.quantize.lowered import LoweredLayers
from nnkit.quantize.lowering import lower
from tests.quantize.conftest import float_values, make_model, mark


def block(*, relu: str = "Relu", also_read: bool = False, shift: float = -2.0) -> Model:
    """x -> Relu'd stem -> branch, far below zero; their sum behind an activation; a last convolution."""
    rng = np.random.default_rng(4)
    attributes = {"alpha": 0.2} if relu == "LeakyRelu" else {}
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["s"], name="stem", pads=[1, 1, 1, 1]),
        mark(helper.make_node("Relu", ["s"], ["sr"], name="stem_relu"), "s"),
        helper.make_node("Conv", ["sr", "w1", "b1"], ["b"], name="branch", pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["b", "sr"], ["sum"], name="add"),
        mark(helper.make_node(relu, ["sum"], ["r"], name="relu", **attributes), "sum"),
        helper.make_node("Conv", ["r", "w2"], ["y"], name="last"),
    ]
    if also_read:
        nodes.append(helper.make_node("Conv", ["b", "w2"], ["z"], name="other"))
    constants: dict[str, NDArray[Any]] = {
        "w0": rng.normal(0, 0.3, (4, 3, 3, 3)),
        "b0": rng.normal(0, 0.2, 4),
        "w1": rng.normal(0, 0.6, (4, 4, 3, 3)),
        "b1": np.full(4, shift),
        "w2": rng.normal(0, 0.5, (3, 4, 1, 1)),
    }
    constants = {name: value.astype(np.float32) for name, value in constants.items()}
    return make_model(nodes, constants, {"x": (1, 3, 8, 8)}, ["y", "z"] if also_read else ["y"])


def inputs(count: int, seed: int = 1) -> dict[str, NDArray[np.float32]]:
    return {"x": np.random.default_rng(seed).normal(0, 1, (count, 3, 8, 8)).astype(np.float32)}


def statistics(model: Model, samples: dict[str, NDArray[np.float32]]) -> Any:
    return calibrate(model, {"x": list(samples["x"][:, None])}, {}, method="mse")


def test_the_low_end_is_the_best_of_all_shares_by_brute_force() -> None:
    model, samples = block(), inputs(20)
    layers = split_pools(lower(model))
    tensors = choose_tensors(layers, statistics(model, samples), AffineScheme())
    refined = refined_tensors(layers, tensors, samples)
    old, new = tensors["b"].format, refined["b"].format
    # ONNX Runtime's values; the sum by hand, with the branch on each of the grids.
    values = [float_values(model, {"x": x[None]}) for x in samples["x"]]
    branch, other = (np.concatenate([each[name] for each in values]).astype(np.float64) for name in ("b", "sr"))
    exact = np.maximum(branch + other, 0.0)
    low, high = -old.zero_point[0] * old.scale[0], (255 - old.zero_point[0]) * old.scale[0]
    errors = []
    for share in SHARES:
        scale = (high - share * low) / 255
        zero = round(-share * low / scale)
        stored = np.clip(np.rint(branch / scale) + zero, 0, 255)
        errors.append(np.square(np.maximum((stored - zero) * scale + other, 0.0) - exact).sum())
    best = int(np.argmin(errors))
    assert best > 0
    assert new.scale[0] == pytest.approx((high - SHARES[best] * low) / 255, rel=1e-6)
    assert (255 - new.zero_point[0]) * new.scale[0] == pytest.approx(high, abs=new.scale[0])  # the high end stays
    assert errors[best] < 0.8 * errors[0]
    assert all(refined[name] is tensors[name] for name in tensors if name != "b")


@pytest.mark.parametrize("model", [block(relu="LeakyRelu"), block(also_read=True)], ids=["leaky", "read twice"])
def test_a_low_end_that_somebody_sees_stays(model: Model) -> None:
    samples = inputs(6)
    layers = split_pools(lower(model))
    tensors = choose_tensors(layers, statistics(model, samples), AffineScheme())
    assert refined_tensors(layers, tensors, samples) == tensors


def test_signed_activations_and_16_bits_stay() -> None:
    model, samples = block(), inputs(6)
    layers = split_pools(lower(model))
    for scheme in (AffineScheme(symmetric_activations=True), AffineScheme(activation_bits=16)):
        tensors = choose_tensors(layers, statistics(model, samples), scheme)
        assert refined_tensors(layers, tensors, samples) == tensors


def test_a_network_gains_on_unseen_inputs_and_onnx_runtime_agrees() -> None:
    model, samples, unseen = block(), inputs(32), inputs(32, seed=2)
    stats, expected = statistics(model, samples), float_outputs(model, unseen)
    plain, refined = (
        quantize_affine(
            LoweredLayers.of(model), stats, AffineScheme(), Corrections(samples=samples, refine_ranges=refine)
        )
        for refine in (False, True)
    )
    before, after = (outputs_sqnr_db(outputs_of(program, unseen), expected) for program in (plain, refined))
    assert after > before + 0.3
    session = exact_session(qdq_model(refined).SerializeToString())
    (run,) = session.run(None, unseen)
    assert outputs_sqnr_db({"y": run}, expected) == pytest.approx(after, abs=0.5)


def test_refined_ranges_that_harm_are_undone_and_said_so() -> None:
    model, samples = block(), inputs(24)
    stats = statistics(model, samples)
    other = {"x": -4.0 * samples["x"][:8]}  # far from what was measured
    verdicts = []
    for held_out in (inputs(8, seed=3), other):
        chosen = quantize_affine(
            LoweredLayers.of(model),
            stats,
            AffineScheme(bias_correction=False),
            Corrections(samples, held_out, refine_ranges=True, measure_anew=False),
        )
        plain = quantize_affine(LoweredLayers.of(model), stats, AffineScheme(bias_correction=False))
        always = quantize_affine(
            LoweredLayers.of(model),
            stats,
            AffineScheme(bias_correction=False),
            Corrections(samples=samples, refine_ranges=True),
        )
        reference = float_outputs(model, held_out)
        was, now = (outputs_sqnr_db(outputs_of(program, held_out), reference) for program in (plain, always))
        (note,) = chosen.notes
        assert note.startswith(f"refined ranges {'kept' if now >= was else 'undone'}: {was:.2f} dB without")
        verdicts.append(now >= was)
        expected = always if now >= was else plain
        assert chosen.tensors["b"].format == expected.tensors["b"].format
    assert verdicts == [True, False]


def test_networks_without_such_additions_say_so() -> None:
    model, samples = block(relu="LeakyRelu"), inputs(8)
    scheme = AffineScheme(bias_correction=False)
    program = quantize_affine(
        LoweredLayers.of(model), statistics(model, samples), scheme, Corrections(samples=samples, refine_ranges=True)
    )
    assert program.notes == ("refined ranges: no addition is followed by a Relu alone, so there are none",)

"""Balancing and refined ranges by the recipe's words; names, notes, and the float network behind the program."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnkit.affine_build.diagnosis import layer_table
from nnkit.affine_build.quantize import named_as_imported, source_of, stacked, to_program
from nnkit.calibrate import calibrate
from nnkit.graph import Model
from nnkit.program.affine import AffineProgram
from nnkit.quantize.affine import float_outputs, outputs_of
from nnkit.quantize.judge import outputs_sqnr_db
from nnkit.quantize.lowered import LoweredLayers
from nnkit.recipe import Calibration
from nnkit.recipe.sections import Correction
from nnkit.samples import Sample
from nnkit.target import Quantization
from nnkit_onnx_qdq.options import OnnxQdqOptions
from tests.quantize.affine.test_affine_balance import inputs, residual

OPTIONS = OnnxQdqOptions()
SAMPLES = [Sample(str(index), {"x": value[None]}) for index, value in enumerate(inputs(24)["x"])]


def quantization(model: Model, *corrections: Correction) -> Quantization:
    return Quantization(
        "net",
        calibrate(model, {"x": [sample.inputs["x"] for sample in SAMPLES]}, {}, method="mse"),
        Calibration(method="mse", corrections=corrections),
        {},
        lambda count: SAMPLES[:count],
    )


def program_of(model: Model, *corrections: Correction) -> AffineProgram:
    return to_program(LoweredLayers.of(model), quantization(model, *corrections), OPTIONS)


def test_a_balanced_build_loses_less_and_says_what_was_done() -> None:
    model, unseen = residual(), inputs(24, seed=7)
    plain = program_of(model, "bias_correction")
    better = program_of(model, "balance", "bias_correction", "refine_ranges")
    text = "\n".join(better.notes)
    assert "balancing kept" in text
    assert "refined ranges" in text
    assert "bias correction" in text
    expected = float_outputs(model, unseen)
    assert (
        outputs_sqnr_db(outputs_of(better, unseen), expected)
        > outputs_sqnr_db(outputs_of(plain, unseen), expected) + 1.0
    )
    again = program_of(model, "balance", "bias_correction", "refine_ranges")
    assert [op.weight.tobytes() for op in again.ops if hasattr(op, "weight")] == [
        op.weight.tobytes() for op in better.ops if hasattr(op, "weight")
    ]
    assert again.tensors == better.tensors


@pytest.mark.parametrize("before", [(), ("equalize",), ("equalize", "adaround")])
def test_scaled_values_have_names_of_their_own_and_the_float_network_is_found(
    before: tuple[Correction, ...],
) -> None:
    corrections = (*before, "balance", "bias_correction")
    model = residual()
    program = program_of(model, *corrections)
    scaled = [name for name in program.tensors if name.endswith(".balanced")]
    assert scaled
    assert "y" in program.tensors
    if "equalize" in corrections and any(note.startswith("equalisation kept") for note in program.notes):
        assert any(name.endswith(".equalized.balanced") for name in scaled)
    source, named = source_of(program, LoweredLayers.of(model), lambda count: SAMPLES[:count], OPTIONS)
    assert not any(name.endswith((".balanced", ".equalized")) for name in named.tensors)
    assert set(named_as_imported(program).tensors) == set(named.tensors)
    x = stacked(SAMPLES[:8], model)
    np.testing.assert_allclose(
        float_outputs(source.model, x)["y"], float_outputs(model, x)["y"], rtol=1e-4, atol=1e-4
    )  # the same function
    table = layer_table(program, LoweredLayers.of(model), lambda count: SAMPLES[:count], [], OPTIONS)
    # Beside the network's own values the scaled ones would look like noise.
    assert min(layer["cumulative_sqnr_db"]["calibration"] for layer in table["layers"]) > 15.0
    if "adaround" in corrections:
        assert any(note.startswith("adaptive rounding") for note in program.notes)
        assert not any(note.startswith("adaptive rounding") for note in program_of(model, "balance").notes)


def test_long_work_says_what_it_is_about() -> None:
    model, said = residual(), list[str]()
    wanted = replace(quantization(model, "balance", "bias_correction", "adaround"), say=said.append)
    program = to_program(LoweredLayers.of(model), wanted, OPTIONS)
    count = len(program.ops)
    for label in ("trial: bias correction", "bias correction", "adaptive rounding"):
        assert f"{label}, layer 1 of {count}" in said
        assert f"{label}, layer {count} of {count}" in said


def test_weights_per_tensor_cannot_be_balanced_and_that_is_said() -> None:
    model = residual()
    options = OnnxQdqOptions(weights="per_tensor")
    program = to_program(LoweredLayers.of(model), quantization(model, "balance"), options)
    assert not any(name.endswith(".balanced") for name in program.tensors)
    assert any("no channels can be scaled" in note for note in program.notes)
    assert any("one scale per tensor" in note for note in program.notes)

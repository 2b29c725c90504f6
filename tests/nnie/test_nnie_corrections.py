"""Corrections as a recipe asks for them: judged on held-out images, in the emitted pair, undone where they harm."""

from __future__ import annotations

import statistics
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from nnie_corrected import project, report, run

from nnkit.builds import open_build
from nnkit.errors import RecipeError
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.quantize.judge import Accuracy, clearly_better
from nnkit_nnie.corrections import correct as stage
from nnkit_nnie.gfpq.ops import STORED, NnieWeighted

PLAIN = "calibration: {corrections: []}\n"


def test_both_help_and_the_pair_has_them(tmp_path: Path) -> None:
    """Each is judged, against what was kept before; the emitted pair, read again, gives the program's values."""
    assert run(project(tmp_path, PLAIN)).exit_code == 0
    plain = report(tmp_path)["verify"]["float_vs_program"]["sqnr_db"]
    done = run(project(tmp_path, "calibration: {corrections: [bias_correction, equalize]}\n"))
    assert done.exit_code == 0, done.output
    found = report(tmp_path)
    notes = [note for note in found["quantization_notes"] if "held-out inputs" in note]
    assert notes[0].startswith("equalisation kept: ")
    assert notes[1].startswith("bias correction ")
    assert notes[0].split()[-6] == notes[1].split(": ")[1].split()[0]  # dB with the first, without the second
    assert found["verify"]["float_vs_program"]["sqnr_db"] > plain + 0.5
    (caffe,) = [each for each in found["verify"]["program_vs_artifact"] if each["how"] == "caffe"]
    assert caffe["mismatches"] == 0
    build = tmp_path / "out" / "small" / "nnie"
    program = open_build(build).program
    assert "dw0_relu.equalized" in program.tensors
    assert not any("equalized" in line for line in (build / "calibration.yaml").read_text().splitlines())
    from nnkit.importers.caffe_importer import import_caffe

    pair = import_caffe(build / "artifact" / "small.prototxt", build / "artifact" / "small.caffemodel").model
    given = {"image": np.random.default_rng(0).normal(size=(1, 3, 16, 16)).astype(np.float32)}
    ours = FloatSession(pair).run(given)["fc"]
    (theirs,) = onnxruntime.InferenceSession(build / "float.onnx").run(["fc"], given)
    assert np.abs(ours - theirs).max() < 0.2 * np.abs(theirs).max()  # perhaps other biases, and nothing else


def test_too_few_images(tmp_path: Path) -> None:
    done = run(project(tmp_path, "calibration: {corrections: [equalize]}\n", images=5))
    assert isinstance(done.exception, RecipeError)
    assert "there are 5" in str(done.exception)


def test_a_recipe_that_says_nothing_has_what_helps(tmp_path: Path) -> None:
    """The same as of one that asks for all, but for what gains next to nothing; 16 bits are left alone."""
    recipe = project(tmp_path, PLAIN)
    assert run(recipe).exit_code == 0
    plain = report(tmp_path)
    assert not [note for note in plain["quantization_notes"] if "held-out" in note]
    assert not any("corrections" in each["recipe"] for each in plain["advice"])  # it chose to have none, and passed
    recipe.write_text(recipe.read_text().replace(PLAIN, ""))
    assert run(recipe).exit_code == 0
    found = report(tmp_path)
    notes = [note for note in found["quantization_notes"] if "held-out inputs" in note]
    assert [note.split(":")[0].rsplit(" ", 1)[0] for note in notes] == list(stage._LABELS.values())
    assert "equalisation kept" in notes[0]
    assert found["verify"]["float_vs_program"]["sqnr_db"] > plain["verify"]["float_vs_program"]["sqnr_db"] + 0.5
    assert not any("corrections" in each["recipe"] for each in found["advice"])
    recipe.write_text(recipe.read_text().replace("precision_table", "compile_mode: 1, precision_table"))
    assert run(recipe).exit_code == 0
    assert not [note for note in report(tmp_path)["quantization_notes"] if "held-out" in note]


def test_the_choices_of_precision_are_without_corrections_and_the_build_is_with_them(tmp_path: Path) -> None:
    """Each against the network as it came: rows of both builds are equal, and the build's is its verification."""
    recipe = project(tmp_path, PLAIN)
    recipe.write_text(recipe.read_text().replace(", precision_table: false", ""))
    assert run(recipe).exit_code == 0
    plain = report(tmp_path)
    recipe.write_text(recipe.read_text().replace(PLAIN, ""))
    assert run(recipe).exit_code == 0
    found = report(tmp_path)
    *others, own = found["details"]["precision"]
    assert others == plain["details"]["precision"]
    assert (own["choice"], own["layers"]) == ("as_built", [])
    for each, row in ((plain, others[0]), (found, own)):
        assert row["sqnr_db"] == pytest.approx(each["verify"]["float_vs_program"]["sqnr_db"], abs=1e-6)
    assert own["sqnr_db"] > others[0]["sqnr_db"] + 0.5
    assert found["details"]["precision_images"].endswith("as_built with corrected weights and the others without")


@pytest.mark.parametrize(
    ("gains", "together", "kept"),
    [
        ([1.0, 1.2, 0.8, 1.0], 0.9, True),
        ([3.0, -2.0, 4.0, -1.0], 1.0, False),  # as much as chance: a mean of 1 with a standard error of 1.47
        ([3.0, -1.0, 4.0, -1.0], 1.0, False),  # 1.25 with 1.31
        ([3.0, -1.0, 4.0, 0.0], 1.0, True),  # 1.5 with 1.19
        ([0.06, 0.06, 0.06, 0.06], 0.06, False),
        ([1.0, 1.2, 0.8, 1.0], -0.1, False),
        ([-1.0, -1.2, -0.8, -1.0], -1.0, False),
    ],
)
def test_what_is_clearly_better(gains: list[float], together: float, kept: bool) -> None:
    without = Accuracy(10.0, np.asarray([12.0, 8.0, 10.0, 9.0]))
    found, note = clearly_better("it", without, Accuracy(10.0 + together, without.each_db + gains))
    assert found == kept
    error = statistics.stdev(gains) / 2
    assert note.endswith(f"{statistics.mean(gains):+.2f} dB on the mean input, with a standard error of {error:.2f}")


def test_a_recipe_that_says_nothing_and_has_few_images(tmp_path: Path) -> None:
    assert run(project(tmp_path, "", images=7)).exit_code == 0
    notes = report(tmp_path)["quantization_notes"]
    assert "weights are not corrected: that takes 8 calibration images, and there are 7" in notes


def test_layers_are_searched_on_the_network_as_it_is(tmp_path: Path) -> None:
    more = "tags: {hp: auto}\nverify: {gates: {cosine: 0.995}}\n"
    assert run(project(tmp_path, more, target=", compile_mode: 2")).exit_code == 0
    assert not [note for note in report(tmp_path)["quantization_notes"] if "held-out" in note]


def test_what_harms_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(network, program, edit, samples, say) -> int:
        edit.set_constant("fc", 2, edit.constant("fc", 2) + 5.0)
        return 1

    assert run(project(tmp_path, PLAIN)).exit_code == 0
    plain = report(tmp_path)["verify"]["float_vs_program"]
    monkeypatch.setattr(stage, "correct_biases", spoil)
    assert run(project(tmp_path, "calibration: {corrections: [bias_correction]}\n")).exit_code == 0
    found = report(tmp_path)
    assert found["verify"]["float_vs_program"] == plain
    assert any("bias correction undone" in note for note in found["quantization_notes"])


def test_nothing_to_change(tmp_path: Path) -> None:
    """No convolution reads another's channels."""
    assert run(project(tmp_path, "calibration: {corrections: [equalize]}\n", blocks=0)).exit_code == 0
    assert "equalisation: there is nothing that it could change" in report(tmp_path)["quantization_notes"]


def test_layers_in_16_bits_that_were_searched_keep_them(tmp_path: Path) -> None:
    more = "tags: {hp: auto}\nverify: {gates: {cosine: 0.995}}\n"
    more += "calibration: {corrections: [equalize, bias_correction]}\n"
    done = run(project(tmp_path, more, target=", compile_mode: 2"))
    assert done.exit_code == 0, done.output
    chosen = {row["name"] for row in report(tmp_path)["mixed_precision"]["chosen"]}
    program = open_build(tmp_path / "out" / "small" / "nnie").program
    bits = {op.layer: op.read_as.bits for op in program.ops if isinstance(op, NnieWeighted)}
    assert {layer for layer, width in bits.items() if width == 16} == chosen & bits.keys()
    assert program.tensors["fc"].format == STORED

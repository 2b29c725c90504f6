"""What corrected weights do to the recipe's task: judged by it where the recipe has images for that, and told."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from nnie_corrected import project, report, run
from typer.testing import CliRunner

from nnkit.builds import open_build
from nnkit.cli import app
from nnkit.errors import RecipeError, UserFileError
from nnkit.program.inputs import quantized_inputs
from nnkit.quantize.judge import Verdict
from nnkit.samples import Sample
from nnkit.simulate import simulate
from nnkit_nnie.corrections.task import TaskOfCandidates, task_of_corrections


def row(choice: str, layers: list[str], **task: float | None) -> dict[str, Any]:
    metrics = [{"name": name, "program": value, "float": None} for name, value in task.items()]
    return {"choice": choice, "layers": layers, "images": 36, "task": metrics}


OTHER = row("all", ["a", "b"], recall=0.9)


@pytest.mark.parametrize(("without", "with_them", "worse"), [(0.5, 0.6, False), (0.5, 0.5, False), (0.6, 0.5, True)])
def test_both_are_told_and_a_worse_one_with_what_to_write(without: float, with_them: float, worse: bool) -> None:
    rows = [OTHER, row("not_corrected", ["a"], recall=without), row("as_built", ["a"], recall=with_them)]
    (line,) = task_of_corrections(rows, frozenset({"a"}))
    assert f"recall {without:.4f} without, {with_them:.4f} with, on 36 images" in line
    assert ("corrections: []" in line) == worse


def test_metrics_of_which_less_is_better_and_such_that_could_not_be_measured_are_left_out() -> None:
    rows = [
        row("no_hp", [], changed_decisions=0.1, mean_average_precision=None),
        row("as_built", [], changed_decisions=0.2, mean_average_precision=0.5),
    ]
    assert task_of_corrections(rows, frozenset()) == []


def test_nothing_is_said_where_nothing_is_corrected_or_there_is_no_task() -> None:
    assert task_of_corrections([OTHER, row("as_built", ["a"], recall=0.5)], frozenset({"a"})) == []
    bare: list[dict[str, Any]] = [{"choice": name, "layers": []} for name in ("no_hp", "as_built")]
    assert task_of_corrections(bare, frozenset()) == []


class _Judge:
    """Gives values in turn."""

    images = 40

    def __init__(self, *values: float) -> None:
        self._values = iter(values)

    def metric(self, program: object, say: object) -> tuple[str, float]:
        return "recall", next(self._values)


def test_what_lowers_the_task_is_undone_though_the_outputs_are_nearer() -> None:
    """And what the outputs undo is not measured; what is kept is what the next has to reach."""
    near, far = Verdict(True, "x kept: 10 without, 12 with"), Verdict(False, "x undone: 10 without, 9 with")
    task: Any = TaskOfCandidates(_Judge(0.5, 0.4, 0.6, 0.55), None, print)  # type: ignore[arg-type]
    undone = Verdict(False, "a undone: recall 0.5000 without, 0.4000 with; 10 without, 12 with")
    assert task.verdict("a", near, None) == undone
    assert task.verdict("b", near, None).kept
    assert task.verdict("c", far, None) == far
    assert not task.verdict("d", near, None).kept
    assert str(task) == ", and by recall on the 40 images of calibration.judged_on"


JUDGED = "judged_on: judging/*/*.png"
PEOPLE = (
    "verify:\n  images: held_out/*/*.png\n  count: 4\n"
    "  task: {kind: verification, identity: parent_folder, false_positive_rate: 0.2}\n"
)


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """Two folders of four people with four pictures each: people look like coarse noise, pictures differ a little."""
    for number, folder in enumerate(("judging", "held_out")):
        for person in range(4):
            rng = np.random.default_rng([number, person])
            face = rng.integers(0, 256, (5, 5, 3))
            (tmp_path / folder / str(person)).mkdir(parents=True)
            for picture in range(4):
                pixels = np.clip(face + rng.normal(0, 60, face.shape), 0, 255).astype(np.uint8)
                cv2.imwrite(str(tmp_path / folder / str(person) / f"{picture}.png"), cv2.resize(pixels, (16, 16)))
    return tmp_path


def recall_of(build: Path, pictures: list[Path]) -> float:
    """By hand: the share of pairs of one person that are more alike than all but a fifth of the pairs of two."""
    program = open_build(build).program
    features = []
    for path in pictures:
        pixels = cv2.imread(str(path)).transpose(2, 0, 1)[np.newaxis].astype(np.float32)
        given = quantized_inputs(program, Sample(path.name, {"image": (pixels - 128) * np.float32(0.02)}))
        features.append(simulate(program, given)["fc"].astype(np.float64).ravel())
    alike: dict[bool, list[float]] = {True: [], False: []}
    for (a, one), (b, other) in itertools.combinations(zip(features, pictures, strict=True), 2):
        alike[one.parent == other.parent].append(float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)))
    threshold = sorted(alike[False], reverse=True)[len(alike[False]) // 5]
    return sum(score > threshold for score in alike[True]) / len(alike[True])


def test_figures_are_those_of_the_builds_on_these_images(labelled: Path) -> None:
    """Scaled channels bring these outputs 3 dB nearer to float and find fewer people: undone where people count."""
    build, pictures = labelled / "out" / "small" / "nnie", sorted((labelled / "judging").glob("*/*.png"))
    recipe = project(labelled, f"calibration: {{{JUDGED}, corrections: [equalize]}}\n" + PEOPLE)
    assert run(recipe).exit_code == 0
    told, by = [note for note in report(labelled)["quantization_notes"] if "recall" in note]
    assert told.startswith("equalisation undone: recall ")
    assert by.endswith("and by recall on the 16 images of calibration.judged_on")
    assert recall_of(build, pictures) == pytest.approx(float(told.split()[3]), abs=5e-5)
    project(labelled, "calibration: {corrections: [equalize]}\n" + PEOPLE)
    assert run(recipe).exit_code == 0
    assert any(note.startswith("equalisation kept: ") for note in report(labelled)["quantization_notes"])
    assert recall_of(build, pictures) == pytest.approx(float(told.split()[5]), abs=5e-5)


@pytest.mark.parametrize(
    ("judged_on", "reason"),
    [
        ("held_out/*/*.png", "4 of the 16 images .* verification images too"),
        ("'*.png'", "16 of the 16 images .* calibration images too"),
        ("judging/0/*.png", "recall cannot be measured on the 4 images"),
        ("x.png, corrections: []", "judged_on has no effect without corrections"),
        ("{picture: x.png}", "no input 'picture'"),
    ],
)
def test_images_that_cannot_judge(labelled: Path, judged_on: str, reason: str) -> None:
    done = run(project(labelled, f"calibration: {{judged_on: {judged_on}}}\n" + PEOPLE, blocks=0))
    assert isinstance(done.exception, RecipeError)
    assert re.search(f"recipe.yaml:11:.*{reason}", str(done.exception))


def test_without_a_task_and_for_a_target_that_does_not_ask_it(labelled: Path) -> None:
    recipe = project(labelled, f"calibration: {{{JUDGED}}}\n", blocks=0)
    assert "add verify.task" in str(run(recipe).exception)
    recipe.write_text(recipe.read_text().replace("nnie: {chip: hi3516cv500, precision_table: false}", "onnx_qdq: {}"))
    assert "judges corrections by its outputs alone" in str(run(recipe).exception)


def test_a_check_opens_these_images_too(labelled: Path) -> None:
    recipe = project(labelled, f"calibration: {{{JUDGED}}}\n" + PEOPLE, blocks=0)
    assert CliRunner().invoke(app, ["check", str(recipe)]).exit_code == 0
    (labelled / "judging" / "1" / "2.png").write_bytes(b"no picture")
    done = CliRunner().invoke(app, ["check", str(recipe)])
    assert isinstance(done.exception, UserFileError)
    assert "judging/1/2.png" in str(done.exception)

"""What `init` writes for real networks, `check` accepts, or `init` says why not; and `check` refuses what `run` does.

A sample by seed; `NNKIT_SAMPLE` says how many pairs of a file and a target are tried, `all`: every one.
"""

from __future__ import annotations

import io
import os
import random
from pathlib import Path

import numpy as np
import pytest

from nnkit import pipeline, stages
from nnkit.api.checking import check
from nnkit.api.drafting import refused, write_draft
from nnkit.api.preparing import Switches, builds, load
from nnkit.errors import ExitCode, NnkitError
from nnkit.report.progress import Progress

TARGETS = ("ansi_c", "gap8", "onnx_qdq", "cv181x", "bm1684x", "hi3516dv300", "cortex-m4")
SUFFIXES = (".onnx", ".tflite", ".prototxt")
SAMPLE, SEED = 6, 37


class ReachedCalibrationError(Exception):
    """A run has refused nothing by then."""


@pytest.fixture
def ends_at_calibration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def calibrate(*given: object) -> None:
        raise ReachedCalibrationError

    monkeypatch.setattr(stages, "calibrate", calibrate, raising=False)
    monkeypatch.setenv("NNKIT_CACHE", str(tmp_path / "cache"))


def code_of_run(recipe: Path) -> ExitCode:
    (build,) = builds(load(recipe), (), Progress(stream=io.StringIO()), Switches(emulate=False))
    try:
        pipeline.refuse(build)
        pipeline.prepare(build)
    except NnkitError as error:
        return error.exit_code
    except ReachedCalibrationError:
        return ExitCode.OK
    raise AssertionError("a run without calibration")


def code_of_check(recipe: Path) -> ExitCode:
    try:
        check(recipe)
    except NnkitError as error:
        return error.exit_code
    return ExitCode.OK


def with_arrays(recipe: Path) -> Path:
    """The recipe with calibration arrays for every input, in the place of the comments that propose them."""
    (build,) = builds(load(recipe), (), Progress(stream=io.StringIO()), Switches(emulate=False))
    shapes = {spec.name: spec.shape for spec in pipeline.accept(build, images=False).imported.model.inputs}
    names = iter(load(recipe).model.inputs)
    lines = []
    for line in recipe.read_text().splitlines():
        if line.lstrip().startswith("# calibration:"):
            name = next(names)
            folder = recipe.parent / f"arrays{len(lines)}"
            folder.mkdir()
            if name in shapes:  # one that nothing reads is left out
                np.save(folder / "0.npy", np.zeros(shapes[name], np.float32))
            line = f"      calibration: {{images: {folder.name}/*.npy}}" if name in shapes else ""
        lines.append(line.replace("{}", "") if line.startswith("    ") and not line.startswith("     ") else line)
    filled = recipe.with_name("filled.yaml")
    filled.write_text("\n".join(lines) + "\n")
    return filled


def try_out(model: Path, target: str, folder: Path) -> str:
    """How it went, in a word."""
    folder.mkdir()
    recipe = folder / "recipe.yaml"
    try:
        write_draft(model, recipe, targets=[target], images=None, shapes=())
    except NnkitError as error:
        return "no recipe" if error.remedy and not recipe.exists() else f"a recipe, or no remedy: {error}"
    said = refused(recipe, images=False)
    assert all(error.exit_code != ExitCode.USER for error in said), said  # the recipe itself is right
    assert code_of_check(recipe) == code_of_run(recipe)
    if said:
        assert code_of_check(recipe) == said[0].exit_code
        return "refused"
    filled = with_arrays(recipe)
    assert code_of_check(filled) == ExitCode.OK
    assert code_of_run(filled) == ExitCode.OK
    return "accepted"


@pytest.mark.timeout(0 if "NNKIT_SAMPLE" in os.environ else 900)
@pytest.mark.usefixtures("ends_at_calibration")
def test_what_init_writes_is_accepted_or_init_says_why_not(shared_dir: Path, tmp_path: Path) -> None:
    files = [path for path in sorted(shared_dir.rglob("*")) if path.suffix in SUFFIXES]
    files = [path for path in files if path.parts[len(shared_dir.parts)] in ("models", "nets", "cases")]
    pairs = [(path, target) for path in files for target in TARGETS]
    wanted = os.environ.get("NNKIT_SAMPLE", str(SAMPLE))
    if wanted != "all":
        pairs = random.Random(SEED).sample(pairs, min(int(wanted), len(pairs)))
    ends: dict[str, str] = {}
    for index, (path, target) in enumerate(pairs):
        try:
            ends[f"{path.name} {target}"] = try_out(path, target, tmp_path / str(index))
        except Exception as error:  # all are tried
            ends[f"{path.name} {target}"] = f"{type(error).__name__}: {error}"
    wrong = {pair: end for pair, end in ends.items() if end not in ("accepted", "refused", "no recipe")}
    assert not wrong, "\n".join(f"{pair}: {end}" for pair, end in wrong.items())
    assert "accepted" in ends.values()

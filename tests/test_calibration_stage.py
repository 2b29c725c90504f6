"""The calibration stage names files as the recipe would write them, wherever the project lies."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_project import RECIPE, make_build, write_project

from nnkit import stages
from nnkit.cache import StageCache
from nnkit.calibrate.stats import CalibrationStats
from nnkit.errors import UserFileError
from nnkit.inputs import calibration_samples
from nnkit.preprocess.files import named
from nnkit.stages import Build

ALLOWING = RECIPE + "calibration: {bad_images: 0.5}\n"


def project(folder: Path, recipe: str, *bad: str) -> Build:
    folder.mkdir(exist_ok=True)
    path = write_project(folder, recipe)
    for name in bad:
        (folder / name).write_text("no picture")
    return make_build(path, StageCache(folder.parent / "cache"))


def calibrated(build: Build) -> CalibrationStats:
    return stages.calibrate(build, stages.lower(build, stages.restructure(build, stages.import_model(build))))


def test_names(tmp_path: Path) -> None:
    assert named(tmp_path / "images" / "1.png", tmp_path) == "images/1.png"
    assert named(tmp_path / "images" / "1.png", tmp_path / "recipes" / "face") == "../../images/1.png"
    assert named(tmp_path / "1.png", None) == (tmp_path / "1.png").as_posix()


def test_one_bad_image_is_the_place_of_the_error(tmp_path: Path) -> None:
    with pytest.raises(UserFileError) as caught:
        calibrated(project(tmp_path / "a", RECIPE, "images/1.png"))
    assert caught.value.where == "images/1.png"


def test_several_bad_images_are_listed_by_their_names(tmp_path: Path) -> None:
    with pytest.raises(UserFileError) as caught:
        calibrated(project(tmp_path / "a", RECIPE, "images/0.png", "images/2.png"))
    assert "\n  images/0.png: " in caught.value.reason
    assert str(tmp_path) not in str(caught.value.reason)


def test_what_is_left_out_is_named_and_not_used_again(tmp_path: Path) -> None:
    build = project(tmp_path / "a", ALLOWING, "images/1.png")
    found = calibrated(build)
    assert [image.name for image in found.skipped] == ["images/1.png"]
    model = stages.import_model(build).model
    samples = calibration_samples(build.recipe, model, 8, [image.name for image in found.skipped])
    assert [sample.source for sample in samples] == ["images/0.png", "images/2.png"]


def test_another_place_gives_the_same_names_and_other_names_other_ones(tmp_path: Path) -> None:
    """Also where the results of calibration come from the cache."""
    first = calibrated(project(tmp_path / "a", ALLOWING, "images/1.png"))
    assert calibrated(project(tmp_path / "b", ALLOWING, "images/1.png")).digest == first.digest
    renamed = project(tmp_path / "c", ALLOWING.replace("images/*", "pictures/*"), "images/1.png")
    (tmp_path / "c" / "images").rename(tmp_path / "c" / "pictures")
    assert [image.name for image in calibrated(renamed).skipped] == ["pictures/1.png"]

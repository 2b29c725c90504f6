"""What goes wrong with users' files, inputs and networks in calibration, and what may be left out."""

from __future__ import annotations

import threading
from pathlib import Path

import cv2
import numpy as np
import pytest
from calibration_network import SHAPE, calibrated, graph_model, with_bad_files
from onnx import helper

from nnkit.calibrate import Naming, calibrate
from nnkit.errors import ModelError, RecipeError, UserFileError
from nnkit.graph import Model
from nnkit.preprocess import Preprocess, Resize


def test_unreadable_images_are_all_named(model: Model, pictures: list[Path], tmp_path: Path) -> None:
    paths = with_bad_files(tmp_path, pictures)
    with pytest.raises(UserFileError) as caught:
        calibrated(model, paths, naming=Naming(tmp_path, "recipe.yaml:12:5"))
    assert "2 of 14 calibration images" in caught.value.reason
    assert "\n  s1/text.png: the file is not a picture" in caught.value.reason
    assert "\n  s1/empty.png: the file is empty" in caught.value.reason
    assert caught.value.where == "recipe.yaml:12:5"
    with pytest.raises(UserFileError, match="text") as caught:
        calibrated(model, paths[:5])
    assert caught.value.where == paths[1].as_posix()


def test_an_allowed_share_is_left_out_and_reported(model: Model, pictures: list[Path], tmp_path: Path) -> None:
    paths = with_bad_files(tmp_path, pictures)
    stats = calibrated(model, paths, bad_images=2 / 14, naming=Naming(tmp_path))
    assert [image.name for image in stats.skipped] == ["s1/text.png", "s1/empty.png"]
    assert "empty" in stats.skipped[1].reason
    assert stats.images == 12
    assert stats.ranges == calibrated(model, pictures).ranges
    with pytest.raises(UserFileError, match=r"2 of 14 calibration images cannot be used \(1 allowed\)") as caught:
        calibrated(model, paths, bad_images=0.1)
    assert "{bad_images: 0.15}" in caught.value.remedy, "the share that would do: 2 of 14"
    assert calibrated(model, paths, bad_images=0.15, naming=Naming(tmp_path)).skipped == stats.skipped


def test_wrong_size_and_nan_arrays_count_as_bad(model: Model, pictures: list[Path], tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "small.png"), np.zeros((4, 4), np.uint8))
    np.save(tmp_path / "nan.npy", np.full(SHAPE, np.nan))
    paths = [*pictures, tmp_path / "small.png", tmp_path / "nan.npy"]
    stats = calibrated(model, paths, bad_images=0.5)
    assert [Path(image.name).name for image in stats.skipped] == ["small.png", "nan.npy"]
    preprocess = Preprocess(resize=Resize(8, 10, "bilinear"))
    resized = calibrate(model, {"image": [tmp_path / "small.png"]}, {"image": preprocess})
    assert resized.images == 1


def test_settings_that_do_not_fit_stop_at_once(model: Model, pictures: list[Path]) -> None:
    with pytest.raises(RecipeError, match="color 'rgb' gives 3"):
        calibrate(model, {"image": pictures}, {"image": Preprocess(color="rgb")}, bad_images=0.9)


def test_missing_and_unknown_inputs(model: Model, pictures: list[Path]) -> None:
    with pytest.raises(RecipeError, match="no calibration images"):
        calibrate(model, {}, {}, naming=Naming(where="r.yaml:3:1"))
    with pytest.raises(RecipeError, match="no calibration images"):
        calibrate(model, {"image": []}, {})
    with pytest.raises(RecipeError, match="no input 'imag'") as caught:
        calibrate(model, {"imag": pictures}, {})
    assert "did you mean 'image'" in caught.value.remedy


def test_nan_activations_name_value_and_picture(tmp_path: Path) -> None:
    model = graph_model(
        [
            helper.make_node("Relu", ["x"], ["fine"]),
            helper.make_node("Log", ["fine"], ["logarithm"]),
            helper.make_node("Relu", ["logarithm"], ["y"]),
        ],
        {"x": (1, 1, 2, 2)},
        {},
    )
    paths = [tmp_path / f"{index}.png" for index in range(30)]
    for path in paths:
        cv2.imwrite(str(path), np.full((2, 2), 0 if path.stem == "3" else 9, np.uint8))
    before = threading.active_count()
    with pytest.raises(ModelError, match="infinity") as caught:
        calibrate(model, {"x": paths}, {}, naming=Naming(tmp_path))
    assert caught.value.where == "logarithm"
    assert "3.png" in caught.value.reason
    assert threading.active_count() == before  # the decoding thread has ended


def test_a_network_that_onnx_runtime_refuses() -> None:
    model = graph_model([helper.make_node("NoSuchOp", ["x"], ["y"])], {"x": (1, 2)}, {})
    with pytest.raises(ModelError, match="ONNX Runtime cannot run the network"):
        calibrate(model, {"x": [np.zeros((1, 2))]}, {})

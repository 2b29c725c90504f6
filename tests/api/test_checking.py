"""`nnkit check` opens what the recipe names and reports all that is wrong at once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image
from small_project import RECIPE, write_project

from nnkit.api.checking import check
from nnkit.api.drafting import refused
from nnkit.commands.check import check_commands
from nnkit.errors import ModelError, NnkitError, RecipeError, SeveralError, UserFileError
from nnkit.recipe.settings import parse_settings, settings_of
from tests.end_to_end.networks import Net


def test_everything_is_told_at_once(tmp_path: Path) -> None:
    recipe = RECIPE.replace("resize: {size: [40, 40]}", "flip: true").replace(
        "    x:", "    y: {calibration: {images: none/*.png}}\n    x:"
    )
    path = write_project(tmp_path, recipe + "tags: {hp: [conv_99], cpu: [nothing]}\n")
    (tmp_path / "images/1.png").write_text("no picture")
    with pytest.raises(SeveralError) as caught:
        check(path)
    text = str(caught.value)
    for said in (
        f"{path}:14:13: tags.hp: 'conv_99' matches no layer",
        "tags.cpu: 'nothing' matches no layer",
        "the network has no input 'y'",
        "'none/*.png' matches no file",
        "the picture is 48 x 40 pixels (height x width), the network takes 40 x 40 (and 1 more: 2.png)",
        "1.png: the file is not a picture of a known format",
    ):
        assert said in text, text
    assert len(caught.value.errors) == 6
    assert text.count("fix: ") == 6
    assert caught.value.exit_code == 2


def test_an_operator_that_the_target_does_not_take_is_told_as_by_a_run(tmp_path: Path) -> None:
    path = write_project(tmp_path)
    net = Net((1, 1, 40, 40))
    net.save(tmp_path / "net.onnx", net.node("Sin", [net.conv("x", 4)], 4))
    with pytest.raises(ModelError, match="op Sin is not supported"):
        check(path)


def test_of_several_builds_it_is_said_which_are_refused(tmp_path: Path) -> None:
    path = write_project(tmp_path, RECIPE.replace("  gap8: {}", "  gap8: {}\n  ansi_c: {}"))
    net = Net((1, 1, 40, 40))
    net.save(tmp_path / "net.onnx", net.conv("x", 4, kernel=33))
    with pytest.raises(ModelError, match=r"\Agap8: "):
        check(path)
    assert [str(error).split(":")[0] for error in refused(path, images=True)] == ["gap8"]
    with pytest.raises(ModelError, match=r"\A1 "):
        check(path, targets=["gap8"])


@pytest.mark.parametrize("side", [31, 33])
def test_a_window_that_the_target_does_not_take_is_told_as_by_a_run(side: int, tmp_path: Path) -> None:
    path = write_project(tmp_path)
    net = Net((1, 1, 40, 40))
    net.save(tmp_path / "net.onnx", net.conv("x", 4, kernel=side))
    if side == 31:
        check(path)
        return
    with pytest.raises(ModelError, match=r"kernel sides are at most 31.*found kernel 33x33"):
        check(path)


def test_sizes_are_read_from_the_heads_of_files_alone(tmp_path: Path) -> None:
    path = write_project(tmp_path, RECIPE.replace(", resize: {size: [40, 40]}", ""))
    for index in range(3):
        Image.fromarray(np.zeros((40, 40), np.uint8)).save(tmp_path / f"images/{index}.png")
    data = (tmp_path / "images/2.png").read_bytes()
    (tmp_path / "images/2.png").write_bytes(data[:-20])  # the pixels are cut off, which only decoding finds
    assert check(path).calibration == {"x": 3}
    on_its_side = Image.fromarray(np.zeros((40, 30), np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 6
    on_its_side.save(tmp_path / "images/0.jpg", exif=exif)
    (tmp_path / "images/0.png").unlink()
    with pytest.raises(UserFileError, match="30 x 40 pixels"):
        check(_with_jpg(path))


def _with_jpg(path: Path) -> Path:
    path.write_text(path.read_text().replace("*.png", "*.jpg"))
    return path


def test_arrays_are_held_to_the_input_without_reading_them(tmp_path: Path) -> None:
    path = write_project(tmp_path, RECIPE.replace("*.png", "*.npy"))
    np.save(tmp_path / "images/0.npy", np.zeros((1, 1, 40, 40), np.float32))
    assert check(path).notes == (
        "input 'x' is calibrated on one file: give some dozens, like those of the application",
    )
    np.save(tmp_path / "images/1.npy", np.zeros((1, 1, 40, 41), np.float32))
    with pytest.raises(UserFileError, match=r"shape \[1, 1, 40, 41\], the network takes \[1, 1, 40, 40\]"):
        check(path)


@pytest.mark.parametrize("name", ["model", "data", "labels"])
def test_a_file_that_is_not_there_is_told(name: str, tmp_path: Path) -> None:
    path = write_project(
        tmp_path, RECIPE.replace("gates: {", "task: {kind: classification, labels: l.csv}, gates: {")
    )
    (tmp_path / "l.csv").write_text("0.png,1\n")
    check(path)
    if name == "model":
        (tmp_path / "net.onnx").unlink()
    elif name == "labels":
        (tmp_path / "l.csv").unlink()
    else:
        model = onnx.load(tmp_path / "net.onnx")
        onnx.save(model, tmp_path / "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)
        check(path)
        (tmp_path / "net.data").unlink()
    with pytest.raises(NnkitError, match=r"does not exist|is not there|missing"):
        check(path)


def test_memory_beyond_the_chip_is_told(tmp_path: Path) -> None:
    path = write_project(tmp_path)
    assert "memory" not in str(check(path).notes)
    larger = {"targets.gap8.memory.l2": "1MiB"}
    with pytest.raises(RecipeError, match=r"l2 is 1,048,576 bytes, GAP8 has 524,288") as refused:
        check(path, settings_of(larger))
    assert "write at most 512KiB; " in str(refused.value)
    assert "add larger_chip: true" in str(refused.value)
    told = check(path, settings_of(larger | {"targets.gap8.memory.larger_chip": True})).notes
    assert [note for note in told if "memory.l2 is 1,048,576 bytes, GAP8 has 524,288" in note]


def test_labels_are_judged_by_the_output_that_the_recipe_s_edits_make(tmp_path: Path) -> None:
    path = write_project(
        tmp_path, RECIPE.replace("verify: {", "verify: {task: {kind: classification, labels: l.csv}, ")
    )
    outputs = onnx.shape_inference.infer_shapes(onnx.load(tmp_path / "net.onnx")).graph
    convolution = next(node.output[0] for node in outputs.node if node.op_type == "Conv")
    shape = next(value for value in outputs.value_info if value.name == convolution).type.tensor_type.shape
    classes = int(np.prod([side.dim_value for side in shape.dim[1:]]))
    path.write_text(path.read_text() + f"restructure: [default, {{replace_tail: {{at: {convolution}, tail: []}}}}]\n")
    (tmp_path / "l.csv").write_text(f"0.png,{classes - 1}\n")
    check(path)
    (tmp_path / "l.csv").write_text(f"0.png,{classes}\n")
    with pytest.raises(UserFileError, match=f"but the network has {classes} classes, 0 to {classes - 1}"):
        check(path)


def test_an_input_without_calibration_images_is_refused_where_they_are_needed(tmp_path: Path) -> None:
    path = write_project(tmp_path, RECIPE.replace('      calibration: {images: "images/*.png"}\n', ""))
    with pytest.raises(RecipeError, match="no calibration images for input 'x'"):
        check(path)
    path.write_text(path.read_text().replace("gap8", "ansi_c"))
    assert any("is verified on drawn inputs" in note for note in check(path).notes)
    with pytest.raises(RecipeError, match="no calibration images for input 'x'"):
        check(path, settings_of({"targets.ansi_c.precision": "int8"}))
    path.write_text(RECIPE)
    assert check(path).notes == ()


def test_what_is_wrong_with_one_target_is_told_beside_the_others_with_the_exit_code_of_a_run(tmp_path: Path) -> None:
    path = write_project(tmp_path, RECIPE.replace("gap8: {}", "gap8: {}\n  ansi_c: {}\n  onnx_qdq: {}"))
    net = Net((1, 1, 40, 40))
    net.save(tmp_path / "net.onnx", net.node("Sin", [net.conv("x", 4)], 4))
    with pytest.raises(SeveralError) as caught:
        check(path)
    assert caught.value.exit_code == 3
    assert all(isinstance(error, ModelError) for error in caught.value.errors)


def test_errors_are_json_on_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = write_project(tmp_path)
    bad, worse = tmp_path / "bad.yaml", tmp_path / "worse.yaml"
    bad.write_text(RECIPE.replace("gap8", "gap9").replace("cosine", "cosin"))
    worse.write_text(RECIPE.replace("net.onnx", "none.onnx"))
    with pytest.raises(SeveralError):
        check_commands([good, bad, worse], json=True)
    first, second, third = json.loads(capsys.readouterr().out)
    assert (first["valid"], second["valid"], third["valid"]) == (True, False, False)
    assert second["exit_code"] == 2
    assert [entry["code"] for entry in second["errors"]] == ["NK202", "NK202"]
    assert second["errors"][0]["where"].startswith(f"{bad}:")
    assert "none.onnx" in third["errors"][0]["reason"]
    with pytest.raises(RecipeError):
        check_commands([worse], json=True)
    assert json.loads(capsys.readouterr().out) == third


def test_targets_that_are_set_and_that_the_file_lacks_are_checked(tmp_path: Path) -> None:
    path = write_project(tmp_path)
    for texts in (["targets=[ansi_c, onnx_qdq]"], ["targets.ansi_c.precision=int8", "targets=[ansi_c, onnx_qdq]"]):
        assert check(path, parse_settings(texts)).keys == ("ansi_c", "onnx_qdq")

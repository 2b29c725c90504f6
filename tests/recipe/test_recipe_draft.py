"""A drafted recipe is valid, says what is a guess, and asks for what it cannot know."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnkit.api.preparing import load
from nnkit.errors import UsageError
from nnkit.preprocess import list_images
from nnkit.recipe import RecipePath
from nnkit.recipe.draft import (
    Draft,
    DraftInput,
    Pictures,
    pictures_for,
    pictures_in,
    recipe_name,
    recipe_text,
    with_shapes,
)

TARGETS = (("gap8", "{}", "a chip"),)
OTHERS = (("onnx_qdq", "{}", "another one"),)


def written(folder: Path, *inputs: DraftInput, pictures: Pictures) -> tuple[str, Path]:
    each = dict.fromkeys((given.name for given in inputs), pictures)
    text = recipe_text(Draft("net", "net.onnx", "", inputs, TARGETS, OTHERS, each))
    path = folder / "recipe.yaml"
    path.write_text(text)
    return text, path


@pytest.mark.parametrize(
    ("shape", "normalised", "color", "scale"),
    [
        ((1, 1, 8, 9), False, "gray", (1 / 255,)),
        ((1, 3, 8, 9), False, "rgb", tuple(1 / (255 * std) for std in (0.229, 0.224, 0.225))),
        ((1, 3, 8, 9), True, "rgb", (1.0,)),
    ],
)
def test_pictures_are_preprocessed_and_guesses_called_that(
    tmp_path: Path, shape: tuple[int, ...], normalised: bool, color: str, scale: tuple[float, ...]
) -> None:
    text, path = written(tmp_path, DraftInput("x", shape, normalised), pictures=Pictures("pics/*.png"))
    spec = load(path).model.inputs["x"]
    assert spec.shape == shape
    assert spec.preprocess is not None
    assert spec.preprocess.color == color
    assert spec.preprocess.normalization.scale == pytest.approx(scale)
    assert spec.preprocess.resize is not None
    assert spec.preprocess.resize.size == (8, 9)
    assert ("guess" in text) is not normalised


@pytest.mark.parametrize(
    ("shapes", "given"),
    [
        ([(1, 3, 8, 9)], "held_out/*.png  # pictures"),
        ([(1, 40)], "held_out/*.npy  # inputs"),
        ([(1, 3, 8, 9), (1, 40)], "{x0: held_out/*.png, x1: held_out/*.npy}  # inputs"),
    ],
)
def test_what_verify_would_take_is_what_the_inputs_are(
    tmp_path: Path, shapes: list[tuple[int, ...]], given: str
) -> None:
    names = ("x",) if len(shapes) == 1 else tuple(f"x{index}" for index in range(len(shapes)))
    inputs = (DraftInput(name, shape, False) for name, shape in zip(names, shapes, strict=True))
    text, path = written(tmp_path, *inputs, pictures=Pictures())
    assert f"  # images: {given} that calibration has not seen" in text
    path.write_text(text.replace("  # images: ", "  images: "))
    for name, shape in zip(names, shapes, strict=True):
        expected = f"held_out/*.{'png' if len(shape) == 4 else 'npy'}"
        assert load(path).verify.globs_for(name) == (RecipePath.of(expected),)


def test_torchvision_normalisation_is_the_one_of_its_documentation() -> None:
    text = recipe_text(Draft("n", "n.onnx", "", (DraftInput("x", (1, 3, 8, 8), False),), TARGETS, (), {}))
    assert "mean: [0.485, 0.456, 0.406]\n        std: [0.229, 0.224, 0.225]\n" in text


@pytest.mark.parametrize("name", ["x", "input:0", "1", "null", "it's", "image/a b"])
def test_any_name_of_an_input_is_written_so_that_it_comes_back(tmp_path: Path, name: str) -> None:
    _, path = written(tmp_path, DraftInput(name, (1, 40), False), pictures=Pictures("a b/*.npy", "it's/*.npy"))
    recipe = load(path)
    assert list(recipe.model.inputs) == [name]
    assert list(recipe.targets) == ["gap8"]


@pytest.mark.parametrize(
    ("file", "name"), [("Reid-v2.1.onnx", "reid_v2_1"), ("7.onnx", "net_7"), ("--.onnx", "net"), ("a.onnx", "a")]
)
def test_the_recipe_is_named_after_the_file(file: str, name: str) -> None:
    assert recipe_name(Path(file)) == name


def test_an_open_batch_is_one_and_other_sizes_are_asked_for() -> None:
    inputs = (DraftInput("x", (None, 3, None, 96), False),)
    with pytest.raises(UsageError, match=r"leaves sizes of input 'x' open: 1x3x\?x96") as caught:
        with_shapes(inputs, {})
    assert caught.value.remedy == "give them, for example --shape x=1x3x224x96"
    (given,) = with_shapes(inputs, {"x": (1, 3, 224, 96)})
    assert given.shape == (1, 3, 224, 96)
    with pytest.raises(UsageError, match="no input 'y'"):
        with_shapes(inputs, {"y": (1,)})


@pytest.mark.parametrize(
    ("files", "globs"),
    [
        (("a.png", "b.png", "notes.txt"), ("P/*.png", "")),
        (("a.png", "b.jpg", "c.JPEG"), ("P/*.*", "")),
        (("cats/a.png", "dogs/b.png"), ("P/**/*.png", "")),
        (("calibration/a.png", "held_out/b.png"), ("P/calibration/*.png", "P/held_out/*.png")),
        (("a.jpg", "b.JPEG", "c.JPEG", "notes.txt"), ("P/*.JPEG", "")),
        (("train/x/a.JPG", "val/y/b.png"), ("P/train/**/*.JPG", "P/val/**/*.png")),
    ],
)
def test_pictures_are_found_by_kind_and_folder(
    tmp_path: Path, files: tuple[str, ...], globs: tuple[str, str]
) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = pictures_in(tmp_path)
    wanted = tuple(glob.replace("P", tmp_path.as_posix(), 1) for glob in globs)
    assert (found.calibration, found.held_out, found.aside) == (*wanted, "")


@pytest.mark.parametrize(
    "names",
    [
        [f"{kind}/{number:03}" for kind in ("cat", "dog") for number in range(25)],
        [f"{number}" for number in range(12)],
        [f"{letter}_{number}_left" for letter in "abcdefgh" for number in range(4)],
        [f"{kind}.{number}" for kind in ("é", "?", "[x]") for number in range(30)],
    ],
    ids=["by class", "few", "all end alike", "odd names"],
)
def test_about_a_fifth_is_kept_aside_and_never_calibrated_on(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.png").touch()
    found = pictures_in(tmp_path)
    text, path = written(tmp_path, DraftInput("x", (1, 1, 8, 8), False), pictures=found)
    recipe = load(path)
    calibration = recipe.model.inputs["x"].calibration
    assert calibration is not None
    seen = list_images(calibration.images, Path())
    aside = list_images(recipe.verify.globs_for("x"), Path())
    assert {path.with_suffix("") for path in (*seen, *aside)} == {tmp_path / name for name in names}
    assert not {*seen} & {*aside}
    assert 0.1 * len(names) <= len(aside) <= 0.4 * len(names)
    assert f"# held out: {len(aside)} of {len(names)}, those whose names" in text


@pytest.mark.parametrize("names", ["012345678", ["x_l", "x_r"] * 9], ids=["too few", "in halves"])
def test_what_does_not_divide_is_for_calibration(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / f"{name}.png").touch()
    assert pictures_in(tmp_path) == Pictures(f"{tmp_path.as_posix()}/*.png")


def test_a_folder_without_pictures_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no pictures in"):
        pictures_in(tmp_path)
    with pytest.raises(UsageError, match="no folder"):
        pictures_in(tmp_path / "none")


@pytest.mark.parametrize("name", ["x\x1b[31m", "a\r\n  error: b", "q\"'\\\u202e", "l\u2028\U000e0041"])
def test_a_name_that_a_terminal_obeys_is_written_as_escapes(tmp_path: Path, name: str) -> None:
    text, path = written(tmp_path, DraftInput(name, (1, 1, 8, 8), False), pictures=Pictures("p/*.png"))
    assert all(each.isprintable() or each == "\n" for each in text)
    assert list(load(path).model.inputs) == [name]


def test_no_variable_is_expanded_in_the_name_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "told")
    inputs = (DraftInput("x", (1, 1, 8, 8), False),)
    files = {"x": Pictures("$a/${SECRET}/*.png", "${SECRET:-b}/*.png")}
    path = tmp_path / "recipe.yaml"
    path.write_text(recipe_text(Draft("net", "${SECRET}$.onnx", "", inputs, TARGETS, OTHERS, files)))
    recipe = load(path)
    calibration = recipe.model.inputs["x"].calibration
    assert calibration is not None
    named = (recipe.model.path, *calibration.images, *recipe.verify.globs_for("x"))
    assert [each.text for each in named] == ["${SECRET}$.onnx", "$a/${SECRET}/*.png", "${SECRET:-b}/*.png"]


def test_each_of_several_inputs_takes_the_folder_that_is_named_as_it_is(tmp_path: Path) -> None:
    inputs = (DraftInput("frame", (1, 1, 8, 8), False), DraftInput("h", (1, 12), False, numbers=False))
    for name in (
        f"{folder}/{number:02}.{kind}" for folder, kind in (("frame", "png"), ("h", "npy")) for number in range(20)
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    files = pictures_for(inputs, tmp_path, "onnx")
    path = tmp_path / "recipe.yaml"
    path.write_text(recipe_text(Draft("net", "net.onnx", "", inputs, TARGETS, OTHERS, files)))
    recipe = load(path)
    for name in ("frame", "h"):
        calibration = recipe.model.inputs[name].calibration
        assert calibration is not None
        seen = [*list_images(calibration.images, Path()), *list_images(recipe.verify.globs_for(name), Path())]
        assert sorted(seen) == sorted((tmp_path / name).iterdir())


def test_one_folder_for_several_inputs_says_that_they_see_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.png").touch()
    inputs = (DraftInput("left", (1, 1, 8, 8), False), DraftInput("right", (1, 1, 8, 8), False))
    text, _ = written(tmp_path, *inputs, pictures=pictures_for(inputs, tmp_path, "onnx")["left"])
    assert "the same files for several inputs: give each a folder of its own, named left" in text

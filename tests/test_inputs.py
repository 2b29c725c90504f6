"""From the recipe to files, preprocessing and exact ranges of each input."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image

from nnkit.api.preparing import load
from nnkit.errors import RecipeError, UserFileError
from nnkit.file_digest import file_digest
from nnkit.graph import InputSpec, LayerTags, Model
from nnkit.inputs import (
    calibration_files,
    has_calibration,
    image_inputs,
    input_ranges,
    preprocess_by_input,
    verification_samples,
)
from nnkit.preprocess import Preprocess, load_input
from nnkit.recipe import Recipe

GRAY, COLOUR = (1, 1, 4, 4), (1, 3, 4, 4)


def model(**inputs: tuple[int, ...]) -> Model:
    """Only the inputs matter here."""
    return Model(b"", LayerTags(), tuple(InputSpec(name, shape) for name, shape in inputs.items()), (), 17)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ten pictures `cal/0.png`.., six `held/0.png`.. whose gray level tells them apart, and a file as model."""
    (tmp_path / "net.onnx").write_bytes(b"")
    for name, count, base in (("cal", 10, 0), ("held", 6, 100)):
        (tmp_path / name).mkdir()
        for index in range(count):
            Image.fromarray(np.full((4, 4), base + index, np.uint8)).save(tmp_path / name / f"{index}.png")
    return tmp_path


def recipe(folder: Path, inputs: str, rest: str = "") -> Recipe:
    path = folder / "recipe.yaml"
    text = f"nnkit: 1\nname: net\nmodel:\n  path: net.onnx\n  inputs: {inputs}\ntargets: {{gap8: {{}}}}\n{rest}"
    path.write_text(text)
    return load(path)


def test_listed_inputs_have_their_preprocessing_and_others_the_default(folder: Path) -> None:
    found = preprocess_by_input(
        recipe(folder, "{a: {preprocess: {color: bgr, mean: 2.0}}, b: {}}"), model(a=COLOUR, b=GRAY, c=COLOUR)
    )
    assert list(found) == ["a", "b", "c"]
    assert found["a"] == Preprocess(color="bgr", mean=(2.0,))
    assert found["b"] == Preprocess(color="gray")
    assert found["c"] == Preprocess(color="rgb")


def test_an_input_that_neither_the_model_has_nor_its_file(folder: Path) -> None:
    """The file declares `spare` too, which nothing uses and the model is without."""
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, GRAY) for name in ("x", "y", "spare", "z")]
    graph = helper.make_graph([helper.make_node("Add", ["x", "y"], ["z"])], "net", infos[:3], infos[3:])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "net.onnx"
    )
    assert list(preprocess_by_input(recipe(folder, "{spare: {}}"), model(x=GRAY, y=GRAY))) == ["x", "y"]
    with pytest.raises(RecipeError) as caught:
        preprocess_by_input(recipe(folder, "{image: {}}"), model(x=GRAY, y=GRAY))
    assert "'image'" in caught.value.reason
    assert caught.value.where.endswith("recipe.yaml:5:19")
    assert "x, y" in caught.value.remedy


@pytest.mark.parametrize(
    ("preprocess", "shape", "low", "high", "integral"),
    [
        ("{}", GRAY, 0.0, 255.0, True),
        ("{mean: 127.5, scale: 0.0078125}", GRAY, -127.5 / 128, 127.5 / 128, False),
        ("{mean: 128}", GRAY, -128.0, 127.0, False),
        ("{scale: -1}", GRAY, -255.0, 0.0, False),
        # Channels by hand: (0..255 - 100) * 1, (0..255 - 0) * 0.1, (0..255 - 200) * 2
        ("{mean: [100, 0, 200], scale: [1, 0.1, 2]}", COLOUR, -400.0, 155.0, False),
        # All means with all scales would give -510..510: each channel reaches half of that at most.
        ("{mean: [0, 255, 0], scale: [1, 1, 0.5]}", COLOUR, -255.0, 255.0, False),
        ("{mean: [0, 255, 0], scale: [2, 1, 1]}", COLOUR, -255.0, 510.0, False),
        # One mean with three scales, and the other way round.
        ("{mean: 55, scale: [1, 2, 3]}", COLOUR, -165.0, 600.0, False),
        ("{mean: [10, 20, 30], scale: 2}", COLOUR, -60.0, 490.0, False),
        ("{mean: [0, 0, 0], scale: [1, 1, 1]}", COLOUR, 0.0, 255.0, True),
    ],
)
def test_ranges_are_exact_and_pair_mean_and_scale_by_channel(
    preprocess: str, shape: tuple[int, ...], low: float, high: float, integral: bool, folder: Path
) -> None:
    found = input_ranges(recipe(folder, f"{{x: {{preprocess: {preprocess}}}}}"), model(x=shape))["x"]
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.integral is integral


@pytest.mark.parametrize("seed", range(5))
def test_ranges_are_reached_by_black_and_white_pictures_and_never_left(seed: int, folder: Path) -> None:
    """The truth is what preprocessing makes of pictures that hold both ends in every channel."""
    rng = np.random.default_rng(seed)
    mean, scale = rng.uniform(-50, 300, 3).round(3), rng.uniform(-2, 2, 3).round(3)
    written = f"{{color: rgb, mean: {mean.tolist()}, scale: {scale.tolist()}}}"
    made = recipe(folder, f"{{x: {{preprocess: {written}}}}}")
    pixels = np.zeros((4, 4, 3), np.uint8)
    pixels[::2] = 255
    Image.fromarray(pixels).save(folder / "ends.png")
    values = load_input(folder / "ends.png", preprocess_by_input(made, model(x=COLOUR))["x"], COLOUR)
    found = input_ranges(made, model(x=COLOUR))["x"]
    assert (found.low, found.high) == pytest.approx((float(values.min()), float(values.max())), rel=1e-6)


def test_inputs_that_are_not_made_from_pictures_have_no_exact_range(folder: Path) -> None:
    assert input_ranges(recipe(folder, "{x: {calibration: {images: '*.npy'}}}"), model(x=(1, 8), y=(1, 4))) == {}


def test_calibration_files_by_input_in_natural_order_and_spread(folder: Path) -> None:
    Image.new("L", (4, 4)).save(folder / "cal/10.png")
    made = recipe(
        folder,
        "{a: {calibration: {images: cal/*.png}}, b: {calibration: {images: [held/1.png, held/0.png], count: 1}}}",
    )
    found = calibration_files(made, model(b=GRAY, a=GRAY))
    assert list(found) == ["b", "a"]  # the model's order
    assert [path.name for path in found["a"]] == [f"{i}.png" for i in range(11)]
    assert [path.name for path in found["b"]] == ["0.png"]
    made = recipe(folder, "{a: {calibration: {images: cal/*.png, count: 5}}}")
    assert [path.name for path in calibration_files(made, model(a=GRAY))["a"]] == [
        f"{i}.png" for i in (0, 2, 4, 6, 8)
    ]


def test_an_input_without_calibration_images(folder: Path) -> None:
    made = recipe(folder, "{a: {calibration: {images: cal/*.png}}, b: {}}")
    with pytest.raises(RecipeError) as caught:
        calibration_files(made, model(a=GRAY, b=GRAY))
    assert "'b'" in caught.value.reason
    assert "model.inputs.b.calibration.images" in caught.value.remedy


def test_whether_calibration_is_possible(folder: Path) -> None:
    def possible(made: Recipe, *names: str) -> bool:
        return has_calibration(made, made.calibration_for("gap8"), model(**dict.fromkeys(names, GRAY)))

    images = "{a: {calibration: {images: cal/*.png}}}"
    assert possible(recipe(folder, images), "a")
    assert not possible(recipe(folder, images), "a", "b")
    assert not possible(recipe(folder, "{a: {}}"), "a")
    assert possible(recipe(folder, "{a: {}}", "calibration: {table: t.yaml}\n"), "a", "b")


def levels(folder: Path, made: Recipe, most: int | None = None) -> list[int]:
    """The gray levels of the samples of a network with one input."""
    return [int(sample.inputs["a"].flat[0]) for sample in verification_samples(made, model(a=GRAY), most)]


CALIBRATION = "{a: {calibration: {images: cal/*.png}}}"


def test_held_out_images_are_verified_on(folder: Path) -> None:
    made = recipe(folder, CALIBRATION, "verify: {images: held/*.png}\n")
    assert levels(folder, made) == [100, 101, 102, 103, 104, 105]
    assert levels(folder, made, most=2) == [100, 101]
    assert [s.source for s in verification_samples(made, model(a=GRAY), 2)] == ["held/0.png", "held/1.png"]


def test_images_are_read_only_when_their_sample_is_asked_for(folder: Path) -> None:
    made = recipe(folder, CALIBRATION, "verify: {images: held/*.png}\n")
    samples = verification_samples(made, model(a=GRAY))
    (folder / "held" / "5.png").write_text("no picture")
    assert len(samples) == 6
    assert [sample.source for sample in samples[1:3]] == ["held/1.png", "held/2.png"]
    with pytest.raises(UserFileError):
        samples[-1]


def test_count_spreads_over_held_out_and_over_calibration_images_alike(folder: Path) -> None:
    made = recipe(folder, CALIBRATION, "verify: {images: held/*.png, count: 3}\n")
    assert levels(folder, made) == [100, 102, 104]
    assert levels(folder, recipe(folder, CALIBRATION, "verify: {count: 5}\n")) == [0, 2, 4, 6, 8]
    assert levels(folder, recipe(folder, CALIBRATION)) == list(range(10))


def test_preprocessing_is_applied(folder: Path) -> None:
    text = "{a: {preprocess: {mean: 100, scale: 0.5}}}"
    made = recipe(folder, text, "verify: {images: held/3.png}\n")
    (sample,) = verification_samples(made, model(a=GRAY))
    assert sample.inputs["a"].dtype == np.float32
    np.testing.assert_array_equal(sample.inputs["a"], np.full(GRAY, 1.5, np.float32))


def test_several_inputs_pair_by_order_and_end_with_the_shorter_list(folder: Path) -> None:
    made = recipe(
        folder, "{a: {}, b: {}}", "verify: {images: {a: held/*.png, b: ['cal/0.png', 'cal/5.png', 'cal/9.png']}}\n"
    )
    samples = verification_samples(made, model(a=GRAY, b=GRAY))
    assert [s.source for s in samples] == ["held/0.png, cal/0.png", "held/1.png, cal/5.png", "held/2.png, cal/9.png"]
    assert [(s.inputs["a"].flat[0], s.inputs["b"].flat[0]) for s in samples] == [(100, 0), (101, 5), (102, 9)]


def test_held_out_images_for_one_of_two_inputs_would_pair_strangers(folder: Path) -> None:
    """Then all inputs take their calibration images, which belong together."""
    inputs = "{a: {calibration: {images: cal/*.png}}, b: {calibration: {images: cal/*.png}}}"
    made = recipe(folder, inputs, "verify: {images: {a: held/*.png}}\n")
    samples = verification_samples(made, model(a=GRAY, b=GRAY))
    assert [(s.inputs["a"].flat[0], s.inputs["b"].flat[0]) for s in samples] == [(i, i) for i in range(10)]


def test_nothing_to_verify_on(folder: Path) -> None:
    made = recipe(folder, "{a: {}}", "calibration: {table: t.yaml}\n")
    with pytest.raises(RecipeError) as caught:
        verification_samples(made, model(a=GRAY))
    assert caught.value.remedy.startswith("add model.inputs.a.calibration.images (")
    assert "verify.images" in caught.value.remedy


def test_digest_is_that_of_the_content(folder: Path) -> None:
    path = folder / "cal/0.png"
    assert file_digest(path) == hashlib.sha256(path.read_bytes()).hexdigest()
    assert file_digest(folder / "missing.png") == "unreadable:missing.png"


def test_inputs_with_written_preprocessing_are_made_from_images(folder: Path) -> None:
    """Without it an input may as well be an array of values that no pixel gives."""
    found = image_inputs(recipe(folder, "{a: {preprocess: {scale: 0.5}}, b: {}}"), model(a=GRAY, b=GRAY, c=GRAY))
    assert found == {"a": Preprocess(color="gray", scale=(0.5,))}

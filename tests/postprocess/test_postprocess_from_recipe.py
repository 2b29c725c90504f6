"""The recipe's CPU stages take sizes and formats from the program, and refuse what does not fit it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnkit.errors import RecipeError
from nnkit.postprocess import DescriptorMatch, FaceCrop, PcaCombine
from nnkit.postprocess.from_recipe import stages_of
from nnkit.program import Fixed, Float, Program, Tensor
from nnkit.recipe import TargetOptionsBase, load_recipe

RECIPE = """\
nnkit: 1
name: demo
model:
  path: m.onnx
  inputs:
    image:
      shape: [1, 1, 64, 64]
      preprocess: {{color: gray, mean: {mean}, scale: 1.0}}
targets: {{gap8: {{}}}}
postprocess:
- {{kind: face_crop, size: [64, 64], border: fill, fill: 9}}
- {{kind: match, threshold: 1.5, capacity: 4, normalize: true{more}}}
"""


def recipe_of(folder: Path, mean: float = 0.0, more: str = ""):
    (folder / "m.onnx").write_bytes(b"")
    path = folder / "recipe.yaml"
    path.write_text(RECIPE.format(mean=mean, more=more))
    return load_recipe(path, target_models={"gap8": TargetOptionsBase})


S16_7, S16_10 = Fixed(16, 7), Fixed(16, 10)


def program_of(shape=(1, 64, 64), image=S16_7, face=S16_10, outputs=("face",)) -> Program:
    tensors = {"image": Tensor("image", shape, image, 0, 255), "face": Tensor("face", (8,), face, -9, 9)}
    tensors["other"] = Tensor("other", (3,), Fixed(8, 2), -9, 9)
    return Program("demo", tensors, (), ("image",), outputs)


def test_sizes_and_formats_come_from_the_program(tmp_path: Path) -> None:
    assert stages_of(recipe_of(tmp_path), program_of()) == [
        FaceCrop(64, "fill", 9, Fixed(16, 7)),
        DescriptorMatch(8, Fixed(16, 10), 4, 1.5, normalize=True),
    ]


def test_one_of_several_outputs_is_named(tmp_path: Path) -> None:
    program = program_of(outputs=("face", "other"))
    with pytest.raises(RecipeError, match="the network has 2 outputs"):
        stages_of(recipe_of(tmp_path), program)
    with pytest.raises(RecipeError, match="no output 'nose'"):
        stages_of(recipe_of(tmp_path, more=", output: nose"), program)
    match = stages_of(recipe_of(tmp_path, more=", output: other"), program)[1]
    assert isinstance(match, DescriptorMatch)
    assert (match.length, match.format) == (3, Fixed(8, 2))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"shape": (1, 32, 32)}, "face_crop makes 1x64x64, but input 'image' is 1x32x32"),
        ({"shape": (3, 64, 64)}, "is 3x64x64"),
        ({"image": Fixed(16, 12)}, "face_crop.format: s16.12 is not supported"),
        ({"image": Float()}, "'image' holds f32 numbers"),
        ({"face": Fixed(32, 3)}, "s32.3 is not supported"),
    ],
)
def test_a_stage_that_does_not_fit_the_network_is_refused(changes: dict, words: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        stages_of(recipe_of(tmp_path), program_of(**changes))
    assert words in caught.value.reason
    assert "recipe.yaml:" in caught.value.where
    assert caught.value.remedy


def test_preprocessing_that_changes_pixels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="face_crop feeds pixels as they are"):
        stages_of(recipe_of(tmp_path, mean=127.5), program_of())


COMBINE = """\
nnkit: 1
name: demo
model: {{path: m.onnx}}
targets: {{gap8: {{}}}}
postprocess: [{{kind: pca_combine, components: {components}{more}}}]
"""
S32 = Fixed(32, 12)


def combined(folder: Path, sizes: dict[str, tuple[int, Fixed]], components: int, more: str = ""):
    (folder / "m.onnx").write_bytes(b"")
    path = folder / "recipe.yaml"
    path.write_text(COMBINE.format(components=components, more=more))
    recipe = load_recipe(path, target_models={"gap8": TargetOptionsBase})
    tensors = {name: Tensor(name, (size, 1, 1), number, -9, 9) for name, (size, number) in sizes.items()}
    tensors["image"] = Tensor("image", (1, 4, 4), S16_7, 0, 255)
    return stages_of(recipe, Program("demo", tensors, (), ("image",), tuple(sizes)))


def test_the_halves_lengths_come_from_the_outputs(tmp_path: Path) -> None:
    assert combined(tmp_path, {"a": (20, S32), "b": (12, S32)}, 4) == [PcaCombine(12, 4, S32)]
    named = combined(tmp_path, {"a": (20, S32), "b": (12, S32), "c": (3, S32)}, 4, ", outputs: [a, b]")
    assert named == [PcaCombine(12, 4, S32)]


@pytest.mark.parametrize(
    ("sizes", "components", "more", "words"),
    [
        ({"a": (20, S32)}, 10, "", "20 values, which are not 2 x 10 components"),
        ({"a": (21, S32)}, 4, "", "21 values, which are not 2 x 4 components"),
        ({"a": (20, S32), "b": (4, S16_7)}, 4, "", "different formats: 'a' s32.12, 'b' s16.7"),
        ({"a": (20, S32)}, 4, ", outputs: [z]", "no output 'z'"),
        ({"a": (20, Float())}, 4, "", "'a' holds f32 numbers"),
    ],
)
def test_halves_that_cannot_be_merged(tmp_path: Path, sizes, components, more, words) -> None:
    with pytest.raises(RecipeError) as caught:
        combined(tmp_path, sizes, components, more)
    assert words in caught.value.reason
    assert str(caught.value).split("recipe.yaml:")[1].startswith("5:15")

"""Sizes that do not fit each other, and inputs that there are not."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from mistakes import Mistake, check_mistake


def open_height(folder: Path) -> None:
    model = onnx.load(folder / "net.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "height"
    onnx.save(model, folder / "net.onnx")


MISTAKES = (
    Mistake(
        "resize against the shape",
        "    x:\n",
        "    x:\n      shape: [1, 1, 40, 48]\n",
        "8:48",
        "resize gives [40, 40] (height, width), but the input is [40, 48]",
        "write size: [40, 48]",
        "    x:\n      shape: [1, 1, 40, 40]\n",
    ),
    Mistake(
        "shape against the model",
        "    x:\n      preprocess: {color: gray, resize: {size: [40, 40]}}",
        "    x:\n      shape: [1, 1, 48, 48]\n      preprocess: {color: gray, resize: {size: [48, 48]}}",
        "7:14",
        "the shape [1, 1, 48, 48] of input 'x' contradicts the model's [1, 1, 40, 40]",
        "write a shape that agrees with the model",
        "    x:\n      shape: [1, 1, 40, 40]\n      preprocess: {color: gray, resize: {size: [40, 40]}}",
    ),
    Mistake(
        "batch",
        "    x:\n",
        "    x:\n      shape: [8, 1, 40, 40]\n",
        "7:15",
        "the batch (first number of the shape) is 8",
        "write 1 there",
        "    x:\n      shape: [1, 1, 40, 40]\n",
    ),
    Mistake(
        "colour of a gray network",
        "color: gray",
        "color: rgb",
        "recipe.yaml",
        "color 'rgb' gives 3 channel(s), the input is [1, 1, 40, 40]",
        "use color: gray",
        "color: gray",
    ),
    Mistake(
        "another input",
        "    x:\n",
        "    image:\n",
        "7:7",
        "the network has no input 'image'",
        "its inputs are: x",
        "    x:\n",
    ),
    Mistake(
        "open size",
        "    x:\n",
        "    x:\n      layout: nchw\n",
        "net.onnx",
        "leaves dimension 2 ('height') open",
        "give it in the recipe, at model.inputs.x.shape",
        "    x:\n      shape: [1, 1, 40, 40]\n",
        prepare=open_height,
    ),
)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_it_is_told_and_the_remedy_mends_it(
    mistake: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check_mistake(mistake, tmp_path, monkeypatch, capsys)

"""Caffe layers of which a rewrite has replaced a node: what is left of them is divided as the nodes that it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import nnkit
from benchmarks.caffe_corpus import cases
from nnkit.errors import LayersNotTakenError

CASES = {case.name: case for case in cases()}


def _recipe(name: str, folder: Path) -> Path:
    case = CASES[name]
    (folder / "net.prototxt").write_text(case.prototxt())
    (folder / "net.caffemodel").write_bytes(case.caffemodel())
    model = {"path": "net.prototxt", "weights": "net.caffemodel"}
    recipe = {"nnkit": 1, "name": "net", "model": model, "targets": {"nnie": {"chip": "hi3516cv500"}}}
    (folder / "recipe.yaml").write_text(json.dumps(recipe))
    return folder / "recipe.yaml"


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "MVN" in case.body])
def test_a_mean_that_became_a_pooling_stands_between_what_was_one_layer(name: str, tmp_path: Path) -> None:
    """Each segment reads what segments before it, or layers before in it, have made."""
    (plan,) = nnkit.plan(_recipe(name, tmp_path), cache=False)
    layers = [layer for segment in plan.data["segments"] for layer in segment["layers"]]
    assert len(layers) == len(set(layers)) >= 1


def test_a_pooling_that_became_a_convolution_leaves_no_pooling(tmp_path: Path) -> None:
    """Of a mean that counts its padding a product for the border stays, which is no pooling by itself."""
    with pytest.raises(LayersNotTakenError, match="rounded up"):
        nnkit.plan(_recipe("pool_AVE_3_3_1_8x9", tmp_path), cache=False)

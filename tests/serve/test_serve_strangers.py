"""Recipes of strangers name what was sent with them, and nothing else of the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnkit.errors import NnkitError
from nnkit.recipe.problems import InvalidRecipeError
from nnkit.serve.strangers import load_foreign

RECIPE = """\
nnkit: 1
name: net
model:
  path: net.onnx
  inputs:
    x: {calibration: {images: images/*.png}}
targets:
  onnx_qdq: {}
"""
SECRET = "a line of the server's own"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret.yaml").write_text(f"name: {SECRET}\n")
    (tmp_path / "upload").mkdir()
    return tmp_path / "upload"


def load(folder: Path, text: str, target: str = "", **settings: object):
    (folder / "recipe.yaml").write_text(text)
    return load_foreign(folder / "recipe.yaml", settings, target)


def test_what_was_sent_may_be_named(folder: Path) -> None:
    text = RECIPE + "verify: {task: {kind: classification, labels: sub/labels.csv}}\n"
    recipe = load(folder, text, **{"verify.gates.cosine": 0.5})
    assert recipe.verify.gates.cosine == 0.5


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("net.onnx", "/etc/net.onnx"),
        ("net.onnx", "../net.onnx"),
        ("net.onnx", "sub/../../net.onnx"),
        ("net.onnx", "~/net.onnx"),
        ("net.onnx", "'..\\net.onnx'"),
        ("net.onnx", "link/net.onnx"),
        ("images/*.png", "/**/*.png"),
        ("images/*.png", "[images/*.png, ../*.png]"),
        ("onnx_qdq: {}", "onnx_qdq: {}\nrelease: {key: /root/release.pem}"),
        ("onnx_qdq: {}", "onnx_qdq: {}\ncalibration: {table: ../secret.yaml}"),
        ("onnx_qdq: {}", "onnx_qdq: {restructure: [{add_pca: {file: /tmp/pca.npz}}]}"),
        ("onnx_qdq: {}", "onnx_qdq: {}\nverify: {task: {kind: classification, labels: /etc/passwd}}"),
        ("onnx_qdq: {}", "nnie: {chip: hi3516cv500, mapper: {path: /opt/nnie_mapper_12}}"),
        ("onnx_qdq: {}", "nnie: {chip: hi3516cv500, mapper: {path: tool}}"),
    ],
)
def test_what_was_not_sent_is_refused_with_its_place(folder: Path, before: str, after: str) -> None:
    (folder / "link").symlink_to(folder.parent)
    with pytest.raises(NnkitError) as caught:
        load(folder, RECIPE.replace(before, after))
    assert "recipe.yaml:" in caught.value.where
    assert caught.value.remedy
    assert "may name" in str(caught.value)


@pytest.mark.parametrize("target", ["", "nnie", "no_such_target"])
def test_programs_of_all_that_is_built_are_refused(folder: Path, target: str) -> None:
    recipe = RECIPE + "  nnie: {chip: hi3516cv500, mapper: {path: tool}}\n"
    with pytest.raises(NnkitError, match="may name no program"):
        load(folder, recipe, target)
    assert load(folder, recipe, "onnx_qdq").targets


@pytest.mark.parametrize(
    "text",
    [
        RECIPE.replace("name: net", "name: !include ../secret.yaml"),
        RECIPE.replace("  onnx_qdq: {}", "  <<: !include ../secret.yaml"),
        RECIPE + "x: &a [*a, !include ../secret.yaml]\n",
    ],
)
def test_nothing_is_included(folder: Path, text: str) -> None:
    with pytest.raises(NnkitError, match="may include no files") as caught:
        load(folder, text)
    assert SECRET not in str(caught.value)


def test_variables_of_the_server_have_no_values(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_SERVER", SECRET)
    with pytest.raises(InvalidRecipeError) as caught:
        load(folder, RECIPE.replace("net.onnx", "${SECRET_OF_THE_SERVER}"))
    assert SECRET not in str(caught.value)
    with pytest.raises(InvalidRecipeError):
        load(folder, RECIPE, **{"model.path": "${SECRET_OF_THE_SERVER}"})


def test_settings_are_held_to_the_same(folder: Path) -> None:
    with pytest.raises(NnkitError, match="may name only files"):
        load(folder, RECIPE, **{"model.path": "/etc/net.onnx"})
    with pytest.raises(NnkitError):
        load(folder, RECIPE, **{"name": "!include ../secret.yaml"})

"""The resolved recipe: loads to an equal recipe, is the same on every machine, and holds no folder of this one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recipe_text import with_values

from nnkit.recipe import load_recipe, resolved_yaml

Write = Callable[[str, str], Path]

RECIPE = """\
nnkit: 1
name: ${NAME}
model: !include ../parts/model.yaml
tags: {hp: ["no", "1e-3", "0o17", "a$$b", "<<", "~", "yes: x", "[x", "null"]}
targets:
  toy: {formats: "${DATA}/f.json", memory: {l2: 1.5KiB}, cores: "${CORES}"}
  other: {plugged: {sizes: [3], names: [b, a]}}
release: {notes: "costs $$5, ${NAME}"}
"""
MODEL = """\
path: ${DATA}/net.onnx
inputs:
  "0": {shape: [1, 3, 8, 8], preprocess: {scale: 1e-05}, calibration: {images: [a$$/*.pgm, "${DIR:-d}/x.pgm"]}}
"""


def load_in(folder: Path, write: Write, target_models, monkeypatch, text: str, data: str):
    write(f"{folder.name}/recipes/r.yaml", text)
    write(f"{folder.name}/parts/model.yaml", MODEL)
    monkeypatch.chdir(folder)
    environ = {"NAME": "small", "DATA": data, "CORES": "2"}
    return load_recipe("recipes/r.yaml", target_models=target_models, environ=environ)


def test_it_loads_to_the_same_recipe(write: Write, target_models, monkeypatch, tmp_path: Path) -> None:
    first = load_in(tmp_path / "m1", write, target_models, monkeypatch, RECIPE, str(tmp_path / "m1" / "data"))
    text = resolved_yaml(first)
    second = load_in(tmp_path / "m1", write, target_models, monkeypatch, text, str(tmp_path / "m1" / "data"))
    for name in type(first).model_fields:
        assert getattr(second, name) == getattr(first, name)
    assert resolved_yaml(second) == text
    images = [spec.calibration.images for spec in (first.model.inputs["0"], second.model.inputs["0"])]
    assert [p.file.resolve() for p in images[0]] == [p.file.resolve() for p in images[1]]
    assert first.model.path.file == second.model.path.file
    assert first.tags.hp == ("no", "1e-3", "0o17", "a$b", "<<", "~", "yes: x", "[x", "null")


def test_it_is_the_same_on_another_machine(write: Write, target_models, monkeypatch, tmp_path: Path) -> None:
    texts = [
        resolved_yaml(load_in(tmp_path / m, write, target_models, monkeypatch, RECIPE, str(tmp_path / m / "data")))
        for m in ("m1", "m2")
    ]
    assert texts[0] == texts[1]
    assert str(tmp_path) not in texts[0]
    assert "path: ${DATA}/net.onnx" in texts[0]
    assert "- ../parts/a$$/*.pgm" in texts[0] or "[../parts/a$$/*.pgm" in texts[0]


def test_every_default_is_written_out(load, minimal: str) -> None:
    data = yaml.safe_load(resolved_yaml(load(minimal)))
    assert data["calibration"] == {
        "method": None,
        "percentile": 99.99,
        "headroom": 1.25,
        "table": None,
        "corrections": None,
        "judged_on": None,
        "bad_images": 0.0,
    }
    assert data["targets"]["toy"]["memory"] == {"l1": 65536, "l2": 524288}
    gates = data["verify"]["gates"]
    assert {"cosine", "sqnr_db", "max_abs", "recall", "top1_accuracy", "drop"} <= set(gates)
    assert set(gates.values()) == {None}


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    notes=st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    glob=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10),
)
def test_any_text_survives(load, minimal: str, notes: str, glob: str) -> None:
    recipe = load(with_values(minimal, {"release.notes": notes, "tags.hp": [glob]}))
    again = load(resolved_yaml(recipe))
    assert again.release.notes == notes
    assert again.tags == recipe.tags


@pytest.mark.parametrize("number", [0.1, 1e-300, 1.0, 123456789.123, 5e-324, -0.5, 1e22])
def test_numbers_survive(load, minimal: str, number: float) -> None:
    recipe = load(with_values(minimal, {"targets.toy.gain": number}))
    assert load(resolved_yaml(recipe)).targets["toy"].gain == number

"""Every target reads a network once in a build, whatever corrections and searches there are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_project import RECIPE, make_build, write_project

from nnkit import pipeline
from nnkit.errors import ModelError
from nnkit.graph import Model

LOWERINGS = {
    "gap8": "nnkit.quantize.lowered.lower",
    "onnx_qdq": "nnkit.quantize.lowered.lower",
    "nnie": "nnkit_nnie.segments.divide",
    "tpu": "nnkit_tpu.lowering.lower",
}
"""The function of each target that reads a model; what is asked for by another name is asked for nowhere."""

CASES = {
    "gap8": ("gap8", "gap8: {precision: int8}", "tags: {hp: auto}\ncalibration: {corrections: [bias_correction]}\n"),
    "onnx_qdq": ("onnx_qdq", "onnx_qdq: {}", "calibration: {corrections: [equalize, balance, bias_correction]}\n"),
    "onnx_qdq with hp: auto": ("onnx_qdq", "onnx_qdq: {}", "tags: {hp: auto}\n"),
    "nnie": ("nnie", "nnie: {chip: hi3516cv500, outside_limits: custom}", "calibration: {corrections: []}\n"),
    "nnie with corrections": ("nnie", "nnie: {chip: hi3516cv500, outside_limits: custom}", ""),
    "nnie with hp: auto": (
        "nnie",
        "nnie: {chip: hi3516cv500, outside_limits: custom, compile_mode: 2}",
        "tags: {hp: auto}\n",
    ),
    "tpu": ("tpu", "tpu: {chip: bm1684x}", "calibration: {corrections: [bias_correction]}\n"),
}

CORRECTS_WEIGHTS = ("nnie with corrections",)
"""Corrected weights are another network, which is read too: each one that is tried, once."""


def counted(monkeypatch: pytest.MonkeyPatch, path: str) -> list[str]:
    """The models that the function is given from now on, by digest."""
    module, _, name = path.rpartition(".")
    original: Callable[..., Any] = getattr(pytest.importorskip(module), name)
    seen: list[str] = []

    def watched(model: Model, *arguments: Any, **named: Any) -> Any:
        seen.append(model.digest)
        return original(model, *arguments, **named)

    monkeypatch.setattr(path, watched)
    return seen


@pytest.mark.parametrize("case", CASES)
def test_a_build_lowers_once(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, options, more = CASES[case]
    recipe = RECIPE.replace("gap8: {}", options).replace(
        "{gates: {cosine: 0.99, sqnr_db: 20, max_abs: 10}}", "{gates: {cosine: 0.5}}"
    )
    path = write_project(tmp_path, recipe + more, images=16)
    seen = counted(monkeypatch, LOWERINGS[target])
    assert pipeline.run(make_build(path, target=target), tmp_path / "out").folder.is_dir()
    assert len(set(seen)) == len(seen)
    if case not in CORRECTS_WEIGHTS:
        assert len(seen) == 1


def test_a_network_that_cannot_be_deployed_is_refused_before_calibration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_project(tmp_path)

    def refused(model: Model, *arguments: Any, **named: Any) -> Any:
        raise ModelError("1 layer cannot be deployed")

    monkeypatch.setattr(LOWERINGS["gap8"], refused)
    for image in (tmp_path / "images").iterdir():
        image.write_bytes(b"no image")  # calibration would be refused for these
    with pytest.raises(ModelError, match="cannot be deployed"):
        pipeline.run(make_build(path), tmp_path / "out")

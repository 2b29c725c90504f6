"""No stage changes what it was given: every input is hashed before and after, over a whole run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel
from small_project import RECIPE, make_build, write_project

from nnkit import pipeline, stages
from nnkit.stages import Artifact, Build

RUN = {
    *(
        "import_model",
        "check_inputs",
        "restructure",
        "lower",
        "calibrate",
        "make_room",
        "choose_method",
        "tune_ranges",
    ),
    *(
        "choose_precision",
        "settle_task",
        "correct",
        "quantize",
        "plan",
        "emit",
        "verify",
        "report",
        "package",
        "page",
    ),
}


def files(folder: Path) -> list[tuple[str, str]]:
    return sorted(
        (path.relative_to(folder).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest())
        for path in folder.rglob("*")
        if path.is_file()
    )


def content(value: Any) -> Any:
    """All that a value holds, as plain data; written apart from the product's own digests."""
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest())
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    if isinstance(value, Build):
        return (content(value.recipe), content(value.options), value.target.name, value.emulate)
    if isinstance(value, Artifact):
        return files(value.folder)  # the build's folder grows around it
    if isinstance(value, BaseModel):
        return value.model_dump_json()
    if isinstance(value, Path):
        return str(value)
    if is_dataclass(value):
        return (type(value).__name__, [(f.name, content(getattr(value, f.name))) for f in fields(value)])
    if isinstance(value, Mapping):
        return [(content(key), content(item)) for key, item in value.items()]
    if isinstance(value, tuple | list):
        return [content(item) for item in value]
    if isinstance(value, frozenset):
        return sorted(content(item) for item in value)
    assert value is None or isinstance(value, bool | int | float | str | np.generic), type(value)
    return repr(value)


def test_the_hash_of_this_file_sees_a_change_anywhere() -> None:
    def nested() -> dict[str, Any]:
        return {"a": [np.arange(3), (1.5, {"b": b"xy"})]}

    changed = nested()
    changed["a"][0][1] = 7
    assert content(nested()) == content(nested())
    assert content(nested()) != content(changed)
    changed = nested()
    changed["a"][1][1]["b"] = b"xz"
    assert content(nested()) != content(changed)


def arrays(value: Any) -> list[np.ndarray[Any, Any]]:
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, Mapping):
        return [found for item in value.values() for found in arrays(item)]
    if isinstance(value, tuple | list):
        return [found for item in value for found in arrays(item)]
    if is_dataclass(value) and not isinstance(value, Build):
        return [found for f in fields(value) for found in arrays(getattr(value, f.name))]
    return []


@pytest.mark.parametrize(
    "extra",
    ["", "calibration: {method: mse}\ntags: {hp: [conv1], cpu: [relu3]}\n", "calibration: {method: auto}\n"],
    ids=["default", "tags and histograms", "a choice of methods"],
)
def test_a_run_leaves_every_input_as_it_was(extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = write_project(tmp_path, RECIPE.replace("gap8: {}", "gap8: {precision: int8}") + extra)
    called: list[str] = []
    handed_on: list[Any] = []

    def watched(name: str, stage: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            before = [content(argument) for argument in arguments]
            result = stage(*arguments)
            after = [content(argument) for argument in arguments]
            for index, (was, now) in enumerate(zip(before, after, strict=True)):
                assert was == now, f"{name} changed its argument {index}"
            called.append(name)
            handed_on.append(result)
            return result

        return call

    for name in stages.__all__:
        stage = getattr(stages, name)
        if isinstance(stage, FunctionType):
            monkeypatch.setattr(stages, name, watched(name, stage))
    before = files(tmp_path)
    outcome = pipeline.run(make_build(recipe), tmp_path / "out")
    assert outcome.status == "ok"
    assert set(called) == RUN
    assert [entry for entry in files(tmp_path) if not entry[0].startswith("out/")] == before  # the user's own files
    writable = [array for array in arrays(handed_on) if array.flags.writeable]
    assert len(arrays(handed_on)) > 10
    assert writable == []

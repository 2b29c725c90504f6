"""Two made-up targets, and a way to write a recipe into a folder and load it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

import pytest
from pydantic import BaseModel, Field, model_validator

from nnkit.recipe import ByteSize, Recipe, RecipeModel, RecipePath, TargetOptionsBase, load_recipe

MINIMAL = """\
nnkit: 1
name: small
model:
  path: net.onnx
targets:
  toy: {}
"""


class Memory(RecipeModel):
    l1: ByteSize = 64 << 10
    l2: ByteSize = Field(default=512 << 10, description="On-chip memory.")


class ToyOptions(TargetOptionsBase):
    """A target for tests."""

    precision: Literal["int8", "int16"] = "int16"
    memory: Memory = Memory()
    cores: int = Field(default=8, ge=1, le=8)
    fast: bool = False
    gain: float = 1.0
    formats: RecipePath | None = None
    order: Literal["auto"] | list[int] | None = None


class Plugged(BaseModel):
    """A section as a third party may write it: not on our base, and with a `before` validator."""

    sizes: tuple[int, ...] = ()
    names: set[str] = set()

    @model_validator(mode="before")
    @classmethod
    def _look(cls, data: Any) -> Any:
        return data


class OtherOptions(TargetOptionsBase):
    plugged: Plugged = Plugged()


@pytest.fixture
def target_models() -> dict[str, type[TargetOptionsBase]]:
    return {"toy": ToyOptions, "other": OtherOptions}


@pytest.fixture
def minimal() -> str:
    return MINIMAL


class Load(Protocol):
    def __call__(self, text: str, *, environ: Mapping[str, str] | None = None, **more: Any) -> Recipe: ...


@pytest.fixture
def load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target_models: Mapping[str, type[TargetOptionsBase]]
) -> Load:
    """Write `recipe.yaml` into an empty working folder and load it by that name."""
    monkeypatch.chdir(tmp_path)

    def write_and_load(text: str, *, environ: Mapping[str, str] | None = None, **more: Any) -> Recipe:
        Path("recipe.yaml").write_text(text, encoding="utf-8")
        return load_recipe("recipe.yaml", target_models=target_models, environ=environ or {}, **more)

    return write_and_load


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Write a file into an empty working folder."""
    monkeypatch.chdir(tmp_path)

    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write_file

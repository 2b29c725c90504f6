"""Every key of a recipe is read by somebody: one that nothing reads promises what is not kept.

Reading is recognised by the key's name, as an attribute or a text, outside of the classes that declare keys; a key
that shares its name with something else is not found out. That is enough for a key that was forgotten.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import nnkit.recipe
from nnkit.recipe.base import RecipeModel
from nnkit.target import option_models

ROOT = Path(nnkit.recipe.__file__).resolve().parents[2]


def models() -> list[type[RecipeModel]]:
    for module in pkgutil.iter_modules(nnkit.recipe.__path__):
        importlib.import_module(f"nnkit.recipe.{module.name}")
    dict(option_models())  # imports the options of the targets

    def below(model: type[RecipeModel]) -> Iterator[type[RecipeModel]]:
        for other in model.__subclasses__():
            yield other
            yield from below(other)

    known = ("nnkit.", *(f"nnkit_{target}." for target in option_models()))
    return [model for model in dict.fromkeys(below(RecipeModel)) if model.__module__.startswith(known)]


@pytest.fixture(scope="module")
def names_read() -> set[str]:
    names: set[str] = set()
    for path in [*ROOT.glob("nnkit/**/*.py"), *ROOT.glob("targets/**/*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                names.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                names.add(node.value)
    for path in [*ROOT.glob("cfg_templates/**/*.j2"), *ROOT.glob("targets/**/*.j2")]:
        names |= set(re.findall(r"[a-z_][a-z0-9_]*", path.read_text(encoding="utf-8")))
    return names


@pytest.mark.parametrize("model", models(), ids=lambda model: f"{model.__module__}.{model.__name__}")
def test_every_key_is_read(model: type[RecipeModel], names_read: set[str]) -> None:
    own = [name for name in model.__annotations__ if name in model.model_fields]
    assert [name for name in own if name not in names_read] == []

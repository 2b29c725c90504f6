"""Packages whose names are imported at first use: the three places in which a name stands agree."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path

import pytest

import nnkit
from nnkit.first_use import names_at_first_use

ROOT = Path(nnkit.__file__).parent
PACKAGES = tuple(
    path.parent.relative_to(ROOT.parent).as_posix().replace("/", ".")
    for path in sorted(ROOT.rglob("__init__.py"))
    if "names_at_first_use" in path.read_text()
)


def test_which_packages_these_are() -> None:
    assert PACKAGES == ("nnkit.api", "nnkit.recipe", "nnkit.stages")


@pytest.mark.parametrize("package", PACKAGES)
def test_a_name_is_imported_from_where_a_checker_of_types_sees_it(package: str) -> None:
    imported = dict(_imports_for_checkers(package))
    module = importlib.import_module(package)
    assert sorted(module.__all__) == sorted(imported)
    for name, source in imported.items():
        assert getattr(module, name) is getattr(importlib.import_module(source), name)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_has_the_name_of_something_else(package: str) -> None:
    """A module of that name, once it is imported, would stand in the package in place of the other thing."""
    module = importlib.import_module(package)
    below = {each.name for each in pkgutil.iter_modules(module.__path__)}
    assert not below & set(module.__all__)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_checker_of_types_sees_no_getattr(package: str) -> None:
    """With one, mypy takes every name of the package for Any, and a slip of the pen for a name."""
    names = [node for node in ast.walk(_tree(package)) if isinstance(node, ast.Name) and node.id == "__getattr__"]
    hidden = [
        node
        for branch in ast.walk(_tree(package))
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "not TYPE_CHECKING"
        for node in ast.walk(branch)
        if isinstance(node, ast.Name) and node.id == "__getattr__"
    ]
    assert len(names) == len(hidden) == 1


def test_another_name_is_told_as_python_tells_it() -> None:
    get = names_at_first_use("nnkit.graph", {"model": ("Model",)})
    with pytest.raises(AttributeError, match=r"^module 'nnkit\.graph' has no attribute 'Modle'$"):
        get("Modle")


def _tree(package: str) -> ast.Module:
    return ast.parse((ROOT.parent / package.replace(".", "/") / "__init__.py").read_text())


def _imports_for_checkers(package: str) -> list[tuple[str, str]]:
    """Name and module of every import under `if TYPE_CHECKING`."""
    return [
        (alias.name, node.module or "")
        for branch in _tree(package).body
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
        for node in branch.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]

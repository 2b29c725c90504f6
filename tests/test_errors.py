"""The error hierarchy: one exit code a kind, place and remedy in the message, and the page that documents them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from nnkit import errors
from nnkit.errors import ExitCode, NnkitError

REPOSITORY = Path(__file__).resolve().parents[1]
DOCUMENTED = {
    "GateFailedError": 1,
    "RecipeError": 2,
    "UsageError": 2,
    "UserFileError": 2,
    "ModelError": 3,
    "LayersNotTakenError": 3,
    "DoesNotFitError": 4,
    "ToolError": 5,
    "UnprovenError": 6,
    "InternalError": 70,
    "NnkitError": 70,
    "SeveralError": 70,  # of itself; each has that of its first
    "BuildsFailedError": 70,  # of itself; each has the worst of its builds
}


def test_every_kind_has_its_documented_exit_code() -> None:
    kinds = {
        name: int(kind.exit_code)
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, NnkitError)
    }
    assert kinds == DOCUMENTED


def test_the_page_lists_exactly_the_exit_codes() -> None:
    page = (REPOSITORY / "docs" / "exit_codes.md").read_text(encoding="utf-8")
    listed = {int(code) for code in re.findall(r"^\| *([0-9]+) *\|", page, re.MULTILINE)}
    assert listed == {int(code) for code in ExitCode}


@pytest.mark.parametrize(
    ("where", "remedy", "text"),
    [
        ("recipe.yaml:3:5", "write l2", "recipe.yaml:3:5: unknown key\n  fix: write l2"),
        ("", "write l2", "unknown key\n  fix: write l2"),
        ("recipe.yaml", "", "recipe.yaml: unknown key"),
        ("", "", "unknown key"),
    ],
)
def test_message(where: str, remedy: str, text: str) -> None:
    error = errors.RecipeError("unknown key", where=where, remedy=remedy)
    assert str(error) == text
    assert (error.reason, error.where, error.remedy) == ("unknown key", where, remedy)


def raised_errors() -> list[tuple[str, ast.Call]]:
    """(place, call) of every `raise SomeError(...)` of the hierarchy in the package and the targets."""
    found = []
    for folder in ("nnkit", "targets"):
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                    name = getattr(node.exc.func, "id", "")
                    if name in DOCUMENTED:
                        found.append((f"{path.relative_to(REPOSITORY)}:{node.lineno}", node.exc))
    return found


def test_errors_for_users_say_where_or_how_to_mend() -> None:
    """A reason alone leaves the user alone; internal errors are reports of bugs and need no remedy."""
    calls = raised_errors()
    assert len(calls) > 50
    alone = [
        place
        for place, call in calls
        if getattr(call.func, "id", "") != "InternalError"
        and not {"where", "remedy"} & {keyword.arg for keyword in call.keywords}
    ]
    assert alone == []

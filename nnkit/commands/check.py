"""`nnkit check`: is the recipe valid, and does everything it names fit?"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.api.checking import check
from nnkit.api.drafting import OfModel, drafted_aside
from nnkit.api.preparing import load
from nnkit.commands.common import print_json
from nnkit.errors import NnkitError, SeveralError, raise_found, worst
from nnkit.recipe import InvalidRecipeError
from nnkit.recipe.deployment_loading import is_deployment
from nnkit.recipe.fixes import apply_fixes
from nnkit.terminal import flush, note_line, print_line

if TYPE_CHECKING:
    from nnkit.recipe.settings import Setting


_ROUNDS = 10


def check_commands(
    paths: Sequence[Path],
    *,
    targets: Sequence[str] = (),
    given: OfModel | None = None,
    settings: Sequence[Setting] = (),
    fix: bool = False,
    json: bool,
) -> None:
    """As `check_command`, of several recipes: what is wrong with one keeps none of the others from being checked.

    json: what was found is printed, errors too, of several recipes as a list.
    Raises what is wrong with the only recipe that is, and SeveralError for several, with the worst exit code.
    """
    failed: list[NnkitError] = []
    results: list[dict[str, Any]] = []
    for path in paths:
        try:
            with drafted_aside(path, targets, given or OfModel()) as (recipe, names):
                checked = check_command(recipe, targets=names, settings=settings, fix=fix)
            results.append({"file": str(path), "valid": True} | checked.data)
            if not json:
                print_line(f"{path}: valid")
                for line in checked.lines:
                    print_line(f"  {line}")
        except NnkitError as error:
            failed.append(error)
            results.append(_refused(path, error))
    if json:
        print_json(results[0] if len(results) == 1 else results)
        flush(sys.stdout)
    raise_found(failed, where="recipes", exit_code=worst(error.exit_code for error in failed))


def _refused(path: Path, error: NnkitError) -> dict[str, Any]:
    """What stands in the place of a valid recipe's entry."""
    return {"file": str(path), "valid": False, "exit_code": int(error.exit_code), "errors": _entries(error)}


def _entries(error: NnkitError) -> list[dict[str, Any]]:
    """Every single error, by the code that `nnkit explain` takes."""
    if isinstance(error, SeveralError):
        return [entry for each in error.errors for entry in _entries(each)]
    single = error.problems if isinstance(error, InvalidRecipeError) else [error]
    return [
        {"code": error.code, "where": each.where, "reason": each.reason, "remedy": each.remedy} for each in single
    ]


@dataclass(frozen=True)
class Found:
    """A valid recipe, as JSON data and for people."""

    data: dict[str, Any]
    lines: list[str]


def check_command(
    path: Path, *, targets: Sequence[str] = (), settings: Sequence[Setting] = (), fix: bool = False
) -> Found:
    """Open what the recipe names, and report all that is wrong at once. Nothing is calibrated.

    fix: words of the recipe of which it is known what they were meant to be are replaced first.
    """
    if is_deployment(path, settings):
        from nnkit.commands.deployment import check_deployment_command

        return Found(*check_deployment_command(path, settings))
    if fix:
        _fix(path, settings)
    checked = check(path, settings, targets)
    recipe, keys = checked.recipe, checked.keys
    data = {
        "recipe": recipe.name,
        "targets": list(keys),
        "calibration_images": dict(checked.calibration),
        "verification_images": checked.verification,
        "notes": list(checked.notes),
    }
    lines = [
        f"model    {Path(recipe.model.path.text).name} ({recipe.model.format})",
        *(f"input    {name}: {count} calibration images" for name, count in checked.calibration.items()),
        *([f"verify   {checked.verification} images"] if checked.verification else []),
        f"targets  {', '.join(keys)}",
        *(f"note     {note}" for note in checked.notes),
    ]
    return Found(data, lines)


def _fix(path: Path, settings: Sequence[Setting]) -> None:
    """A correction may bring up the next mistake, so it goes on as long as there is anything to correct."""
    for _ in range(_ROUNDS):
        try:
            load(path, settings)
        except InvalidRecipeError as error:
            fixes = apply_fixes(error.problems, path.parent)
            for each in fixes:
                note_line(f"fixed {each}")
            if fixes:
                continue
        return

"""`nnkit check`: is the recipe valid, and does everything it names fit?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nnkit.api.checking import check
from nnkit.api.preparing import load
from nnkit.commands.common import print_json
from nnkit.errors import NnkitError, SeveralError
from nnkit.recipe import InvalidRecipeError
from nnkit.recipe.deployment_loading import is_deployment
from nnkit.recipe.fixes import apply_fixes
from nnkit.terminal import note_line, print_line

if TYPE_CHECKING:
    from nnkit.recipe.settings import Setting


_ROUNDS = 10


def check_commands(paths: Sequence[Path], *, settings: Sequence[Setting] = (), fix: bool = False, json: bool) -> None:
    """As `check_command`, of several recipes: what is wrong with one keeps none of the others from being checked.

    Raises what is wrong with the only recipe that is, and SeveralError for several.
    """
    failed: list[NnkitError] = []
    for path in paths:
        try:
            check_command(path, settings=settings, fix=fix, json=json)
        except NnkitError as error:
            failed.append(error)
    if len(failed) == 1:
        raise failed[0]
    if failed:
        raise SeveralError(failed, where="recipes")


def check_command(path: Path, *, settings: Sequence[Setting] = (), fix: bool = False, json: bool) -> None:
    """Open what the recipe names, and tell all that is wrong at once. Nothing is computed.

    fix: words of the recipe of which it is known what they were meant to be are replaced first.
    """
    if is_deployment(path, settings):
        from nnkit.commands.deployment import check_deployment_command

        check_deployment_command(path, settings, json=json)
        return
    if fix:
        _fix(path, settings)
    checked = check(path, settings)
    recipe = checked.recipe
    if json:
        print_json(
            {
                "recipe": recipe.name,
                "targets": list(recipe.targets),
                "calibration_images": dict(checked.calibration),
                "verification_images": checked.verification,
                "notes": list(checked.notes),
            }
        )
        return
    print_line(f"{path}: valid")
    print_line(f"  model    {Path(recipe.model.path.text).name} ({recipe.model.format})")
    for name, count in checked.calibration.items():
        print_line(f"  input    {name}: {count} calibration images")
    if checked.verification:
        print_line(f"  verify   {checked.verification} images")
    print_line(f"  targets  {', '.join(recipe.targets)}")
    for note in checked.notes:
        print_line(f"  note     {note}")


def _fix(path: Path, settings: Sequence[Setting]) -> None:
    """A correction may bring up the next mistake, so it goes on as long as there is anything to correct."""
    for _ in range(_ROUNDS):
        try:
            load(path, settings)
        except InvalidRecipeError as error:
            fixes = apply_fixes(error.problems)
            for each in fixes:
                note_line(f"fixed {each}")
            if fixes:
                continue
        return

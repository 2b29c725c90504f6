"""`nnkit check`: is the recipe valid, and does everything it names fit?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nnkit.api.checking import check
from nnkit.commands.common import print_json, print_line

if TYPE_CHECKING:
    from nnkit.recipe.settings import Setting


def check_command(path: Path, *, settings: Sequence[Setting] = (), json: bool) -> None:
    """Open what the recipe names, and tell all that is wrong at once. Nothing is computed."""
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
    print_line(f"  targets  {', '.join(recipe.targets)}")
    for note in checked.notes:
        print_line(f"  note     {note}")

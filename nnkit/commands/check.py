"""`nnkit check`: is the recipe valid, and is everything it names there?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nnkit.api.preparing import load
from nnkit.commands.common import print_json, print_line

if TYPE_CHECKING:
    from nnkit.recipe.settings import Setting


def check_command(path: Path, *, settings: Sequence[Setting] = (), json: bool) -> None:
    """Validate the recipe, the model's presence, image globs and target options. Nothing is computed."""
    from nnkit.preprocess import list_images
    from nnkit.stages.packaging import signing_key
    from nnkit.target import check_corrections, check_required, load_target, plugin_name

    recipe = load(path, settings)
    model = recipe.model.path.existing_file("the model")
    counts: dict[str, int] = {}
    for name, spec in recipe.model.inputs.items():
        if spec.calibration is not None:
            place = recipe.where("model", "inputs", name, "calibration", "images")
            counts[name] = len(list_images(spec.calibration.images, Path(), spec.calibration.count, where=place))
        globs = recipe.verify.globs_for(name)
        if globs:
            list_images(globs, Path(), recipe.verify.count, where=recipe.where("verify", "images"))
    check_required(recipe)
    for target in recipe.targets:
        check_corrections(recipe, target, load_target(plugin_name(target)))
        table = recipe.calibration_for(target).table
        if table is not None:
            table.existing_file("the calibration table")
    signing_key(recipe)
    if json:
        print_json({"recipe": recipe.name, "targets": list(recipe.targets), "calibration_images": counts})
        return
    print_line(f"{path}: valid")
    print_line(f"  model    {model.name} ({recipe.model.format})")
    for name, count in counts.items():
        print_line(f"  input    {name}: {count} calibration images")
    print_line(f"  targets  {', '.join(recipe.targets)}")

"""`nnkit schema`: the JSON Schemas of recipes, composed from the installed targets, and of reports."""

from __future__ import annotations

from nnkit.commands.common import print_json
from nnkit.terminal import note_line


def schema_command() -> None:
    """Print the schema; a plugin that does not load is left out, and named on stderr."""
    from nnkit.recipe import recipe_json_schema
    from nnkit.target import working_targets

    targets, broken = working_targets()
    for reason in broken.values():
        note_line(f"left out: {reason}")
    print_json(recipe_json_schema({name: target.options for name, target in targets.items()}))


def report_schema_command() -> None:
    """Print the schema of `report.json`."""
    from nnkit.report.schema import report_json_schema

    print_json(report_json_schema())

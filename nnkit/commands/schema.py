"""`nnkit schema`: the JSON Schema of recipes, composed from the installed targets."""

from __future__ import annotations

from nnkit.commands.common import print_json


def schema_command() -> None:
    """Print the schema."""
    from nnkit.recipe import recipe_json_schema
    from nnkit.target import option_models

    print_json(recipe_json_schema(option_models()))

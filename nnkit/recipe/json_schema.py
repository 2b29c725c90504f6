"""The JSON Schema of recipes, composed from the core's sections and the installed targets' options."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, models_json_schema
from pydantic_core import CoreSchema

from nnkit.recipe.deployment import DEPLOYMENT, NOT_IN_A_DEPLOYMENT, DeploymentBody
from nnkit.recipe.loading import TargetModels
from nnkit.recipe.schema import Recipe, RecipeBody

DIALECT = "https://json-schema.org/draft/2020-12/schema"
VARIABLE = "variable"
_DEPLOYMENT = "It stands in place of `model`; see [several networks](deployment.md)."
_VARIABLE_SCHEMA = {
    "type": "string",
    "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^{}]*)?\}",
    "description": "A value from the environment: ${NAME} or ${NAME:-default}.",
}


class _Generator(GenerateJsonSchema):
    """Without titles for fields: they repeat the key."""

    def field_title_should_be_set(self, schema: CoreSchema) -> bool:
        return False


def recipe_json_schema(target_models: TargetModels) -> dict[str, Any]:
    """JSON Schema (draft 2020-12) by which editors complete and check recipes.

    It takes what the loader takes, seen after `!include` and merges; numbers and truth values may be
    `${VARIABLES}`. The loader checks more: files, and sections against each other.

    Args:
        target_models: the options models of the targets to include, by name.
    """
    schema = plain_json_schema(target_models)
    variable = {"$ref": f"#/$defs/{VARIABLE}"}
    defs = {name: _with_variables(section, variable) for name, section in schema["$defs"].items()}
    return {**_with_variables(schema, variable), "$defs": {**defs, VARIABLE: _VARIABLE_SCHEMA}}


def plain_json_schema(target_models: TargetModels) -> dict[str, Any]:
    """As `recipe_json_schema`, without variables: the source of the reference page."""
    mode: JsonSchemaMode = "validation"
    models: list[type[BaseModel]] = [
        RecipeBody,
        DeploymentBody,
        *(target_models[name] for name in sorted(target_models)),
    ]
    by_model, definitions = models_json_schema([(model, mode) for model in models], schema_generator=_Generator)
    defs = definitions["$defs"]
    root = defs.pop(by_model[RecipeBody, mode]["$ref"].rpartition("/")[2])
    targets = {
        name: {"anyOf": [by_model[target_models[name], mode], {"type": "null"}]} for name in sorted(target_models)
    }
    root["properties"]["targets"] = {
        "type": "object",
        "description": Recipe.model_fields["targets"].description,
        "properties": targets,
        "patternProperties": {
            f"^{name}@[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$": schema for name, schema in targets.items()
        },
        "additionalProperties": False,
        "minProperties": 1,
    }
    deployment = defs["DeploymentBody"]["properties"][DEPLOYMENT]
    del defs["DeploymentBody"]
    root["properties"][DEPLOYMENT] = deployment | {"description": f"{deployment['description']} {_DEPLOYMENT}"}
    root["required"] = [*(key for key in root["required"] if key != "model"), "targets"]
    root["if"] = {"required": [DEPLOYMENT]}
    root["then"] = {"properties": dict.fromkeys(NOT_IN_A_DEPLOYMENT, False)}
    root["else"] = {"required": ["model"]}
    root.update({"title": "nnkit recipe", "description": "One recipe, from a trained network to a verified release."})
    return {"$schema": DIALECT, **root, "$defs": {name: defs[name] for name in sorted(defs)}}


def _with_variables(schema: Any, variable: dict[str, Any]) -> Any:
    """The schema, with a variable allowed wherever a number or a truth value is."""
    if isinstance(schema, list):
        return [_with_variables(item, variable) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") in ("integer", "number", "boolean"):
        kept = {key: schema[key] for key in ("description", "default", "examples") if key in schema}
        return {**kept, "anyOf": [{k: v for k, v in schema.items() if k not in kept}, variable]}
    return {key: _below(key, value, variable) for key, value in schema.items()}


def _below(keyword: str, value: Any, variable: dict[str, Any]) -> Any:
    if keyword in ("properties", "patternProperties"):
        return {name: _with_variables(field, variable) for name, field in value.items()}
    if keyword in ("additionalProperties", "items", "prefixItems", "anyOf", "oneOf", "allOf"):
        return _with_variables(value, variable)
    return value

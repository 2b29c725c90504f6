"""The reference page of recipes, rendered from the JSON Schema: a table for every section.

`python -m nnkit.recipe.reference docs/recipe_reference.md` writes it, for the targets that come with nnkit.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from nnkit.recipe.json_schema import plain_json_schema
from nnkit.recipe.loading import TargetModels

_INTRODUCTION = """\
# Recipe reference

This page is generated from the schema that checks recipes (`python -m nnkit.recipe.reference FILE`); `nnkit schema`
prints the same as JSON Schema, for editors.

A recipe is one YAML file. Of YAML 1.2 it takes the core schema: only `true` and `false` are truth values (`yes`,
`no`, `on` and `off` are text), and `1e-3` is a number. A key may be given once. Unknown keys are errors.

- **Paths** are relative to the file that they are written in.
- **Variables**: `${NAME}` is the environment variable, `${NAME:-default}` gives a default for one that is not set or
  empty, `$$` is a dollar sign. They stand in values, not in keys, and inside `[ ]` and `{ }` they need quotes. What
  comes out is text; where a number, `true` or `false` is wanted, that text is read as if it stood there unquoted. A
  path that begins with a variable is relative to the working folder, as on the command line where the variable was
  set; where nothing is found there, to the file that it is written in.
- **Fragments**: `key: !include FILE` puts the content of another YAML file there, and `<<: !include FILE` merges its
  keys into a section, whose own keys win. Files may include files. Anchors (`&name`, `*name`, `<<: *name`) work
  within a file.
- Nothing is ever executed or downloaded.
- **Sizes** in memory are whole bytes (`524288`), or numbers with `KiB`, `MiB` or `GiB` (`512KiB`, `1.5MiB`).
"""

_TYPE_NAMES = {
    "integer": "whole number",
    "number": "number",
    "boolean": "`true`, `false`",
    "string": "text",
    "null": "`null`",
    "object": "section",
    "array": "list",
}


def reference_markdown(target_models: TargetModels) -> str:
    """The page in Markdown, for the core and the given targets."""
    schema = plain_json_schema(target_models)
    parts = [_INTRODUCTION, _section("The recipe", {**schema, "description": ""})]
    written: set[str] = set()
    waiting = list(_references(schema["properties"]))
    while waiting:
        name = waiting.pop(0)
        if name in written:
            continue
        written.add(name)
        section = schema["$defs"][name]
        targets = [target for target, model in target_models.items() if model.__name__ == name]
        title = f"Target `{targets[0]}`" if targets else f"`{name}`"
        parts.append(_section(title, section, anchor=name))
        waiting = [*_references(section.get("properties", {})), *waiting]
    return "\n".join(parts)


def _section(title: str, schema: dict[str, Any], anchor: str = "") -> str:
    lines = [f'<a id="{anchor.lower()}"></a>', ""] if anchor else []
    lines += [f"## {title}", ""]
    if schema.get("description"):
        lines += [schema["description"], ""]
    lines += ["| key | value | default | meaning |", "|---|---|---|---|"]
    for key, field in schema.get("properties", {}).items():
        if key in schema.get("required", ()):
            default = "**required**"
        elif "default" in field and not _is_section_default(field):
            default = f"`{json.dumps(field['default'], ensure_ascii=False)}`"
        else:
            default = ""
        meaning = field.get("description", "") + _example(field)
        lines.append(f"| `{key}` | {_type(field)} | {default} | {meaning} |".replace("\n", " "))
    return "\n".join([*lines, ""])


def _is_section_default(field: dict[str, Any]) -> bool:
    """Whether the default is a section's: its own table has the defaults."""
    return isinstance(field["default"], dict)


def _example(field: dict[str, Any]) -> str:
    examples = field.get("examples", [])
    if not examples or "enum" in field:
        return ""
    text = examples[0] if isinstance(examples[0], str) else json.dumps(examples[0], ensure_ascii=False)
    return f" Example: `{text}`."


def _references(schema: Any) -> Iterator[str]:
    """Names of the definitions that a schema refers to, in order."""
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield _name_of(schema["$ref"])
        for key, value in schema.items():
            if key not in ("default", "examples", "discriminator"):
                yield from _references(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _references(item)


def _name_of(reference: str) -> str:
    return reference.rpartition("/")[2]


def _type(schema: dict[str, Any]) -> str:
    """A schema in a few words; table cells have their `|` escaped."""
    if "$ref" in schema:
        name = _name_of(schema["$ref"])
        return f"[`{name}`](#{name.lower()})"
    if "const" in schema:
        return f"`{json.dumps(schema['const']).strip(chr(34))}`"
    if "enum" in schema:
        return ", ".join(f"`{choice}`" for choice in schema["enum"])
    for union in ("anyOf", "oneOf"):
        if union in schema:
            if schema.get("title") == "size":
                return "size in bytes"
            return " or ".join(dict.fromkeys(_type(member) for member in schema[union]))
    if schema.get("title") == "path":
        return "path"
    if schema.get("type") == "array":
        return _array_type(schema)
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"section: name to {_type(schema['additionalProperties'])}"
    if schema.get("type") == "object":
        return ", ".join(f"`{name}`: {_type(field)}" for name, field in schema.get("properties", {}).items())
    return _TYPE_NAMES.get(schema.get("type", ""), "any value") + _bounds(schema)


def _array_type(schema: dict[str, Any]) -> str:
    if "prefixItems" in schema:
        return "[" + ", ".join(_type(item) for item in schema["prefixItems"]) + "]"
    return f"list of {_type(schema.get('items', {}))}"


def _bounds(schema: dict[str, Any]) -> str:
    """The bounds of a number, as a clause."""
    words = []
    for keyword, text in (
        ("minimum", "from"),
        ("exclusiveMinimum", "above"),
        ("maximum", "to"),
        ("exclusiveMaximum", "below"),
    ):
        if keyword in schema:
            words.append(f"{text} {schema[keyword]:,}")
    if schema.get("not") == {"const": 0}:
        words.append("not 0")
    return f" {' '.join(words)}" if words else ""


def built_in_models() -> TargetModels:
    """The options models of the targets that come with nnkit; other installed plugins document themselves."""
    found = entry_points(group="nnkit.targets")
    return {entry.name: entry.load().options for entry in found if entry.dist and entry.dist.name == "nnkit"}


def main(arguments: list[str]) -> int:
    """Write the page to the file named by the only argument, or to standard output."""
    text = reference_markdown(built_in_models())
    if arguments:
        Path(arguments[0]).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

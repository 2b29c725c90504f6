"""The reference page of recipes, rendered from the JSON Schema: a table for every section.

`python -m nnkit.recipe.reference docs/recipe_reference.md` writes it, for the targets that come with nnkit.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nnkit.installation import own_distribution, target_plugins
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
- Nothing is ever downloaded, and nothing is executed but, with `--trust`, the Python and C of a
  [layer of your own](caffe.md#layers-of-your-own).
- **Sizes** in memory are whole bytes (`524288`), or numbers with `KiB`, `MiB` or `GiB` (`512KiB`, `1.5MiB`).
"""

_TYPE_NAMES = {
    "integer": "whole number",
    "number": "number",
    "boolean": "`true`, `false`",
    "string": "text",
    "null": "`null`",
    "object": "section of keys",
}


def reference_markdown(target_models: TargetModels) -> str:
    """The page in Markdown, for the core and the given targets."""
    schema = plain_json_schema(target_models)
    titles = dict(_titles(schema, schema["$defs"], ""))
    parts = [_INTRODUCTION, _section("The recipe", {**schema, "description": ""}, titles)]
    for name, title in titles.items():
        parts.append(_section(f"`{title}`", schema["$defs"][name], titles, anchor=name.lower()))
    return "\n".join(parts)


def _titles(section: dict[str, Any], defs: dict[str, Any], way: str) -> Iterator[tuple[str, str]]:
    """Name and title of every section below one: the keys that lead there, e.g. `model.inputs.NAME`.

    A section that stands in several places comes once, for the first of them.
    """
    seen: set[str] = set()
    for key, field in section.get("properties", {}).items():
        for name, step in _references(field, key):
            title = f"{way}.{step}" if way else step
            for inner, found_title in [(name, title), *_titles(defs[name], defs, title)]:
                if inner not in seen:
                    seen.add(inner)
                    yield inner, found_title


def _references(schema: dict[str, Any], step: str) -> Iterator[tuple[str, str]]:
    """The definitions that a field refers to, each with the keys that lead to it."""
    if "$ref" in schema:
        yield schema["$ref"].rpartition("/")[2], step
    for member in [*schema.get("anyOf", []), *schema.get("oneOf", []), *schema.get("prefixItems", [])]:
        yield from _references(member, step)
    if isinstance(schema.get("items"), dict):
        kinds = schema["items"].get("discriminator", {}).get("mapping", {})
        for kind, reference in kinds.items():
            yield reference.rpartition("/")[2], f"{step}: {kind}"
        if not kinds:
            yield from _references(schema["items"], step)
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _references(schema["additionalProperties"], f"{step}.NAME")
    for name, field in schema.get("properties", {}).items():
        yield from _references(field, f"{step}.{name}")


def _section(title: str, schema: dict[str, Any], titles: dict[str, str], anchor: str = "") -> str:
    lines = [f'<a id="{anchor}"></a>', ""] if anchor else []
    lines += [f"## {title}", ""]
    if schema.get("description"):
        lines += [schema["description"], ""]
    lines += ["| key | value | default | meaning |", "|---|---|---|---|"]
    for key, field in schema.get("properties", {}).items():
        if key in schema.get("required", ()):
            default = "**required**"
        elif key in schema.get("else", {}).get("required", ()):
            default = f"**required** without `{schema['if']['required'][0]}`"
        elif "default" in field and not _is_section_default(field):
            default = f"`{json.dumps(field['default'], ensure_ascii=False)}`"
        else:
            default = ""
        meaning = field.get("description", "") + _example(field)
        lines.append(f"| `{key}` | {_type(field, titles)} | {default} | {meaning} |".replace("\n", " "))
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


def _type(schema: dict[str, Any], titles: dict[str, str]) -> str:
    """A schema in a few words, with links to the sections it refers to."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[`{titles[name]}`](#{name.lower()})"
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{choice}`" for choice in schema["enum"])
    if schema.get("title") == "size":
        return "size in bytes"
    if schema.get("title") == "path":
        return "path"
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return " or ".join(dict.fromkeys(_type(member, titles) for member in schema[union]))
    if "prefixItems" in schema:
        return "[" + ", ".join(_type(item, titles) for item in schema["prefixItems"]) + "]"
    if schema.get("type") == "array":
        return f"[{_type(schema.get('items', {}), titles)}, ...]"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"NAME: {_type(schema['additionalProperties'], titles)}"
    if schema.get("type") == "object" and not schema.get("properties"):
        return "KEY: any value"
    if schema.get("type") == "object":
        return ", ".join(_type(field, titles) for field in schema.get("properties", {}).values())
    return _TYPE_NAMES.get(schema.get("type", ""), "any value") + _bounds(schema)


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
            bound = schema[keyword]
            words.append(f"{text} {bound:,}" if isinstance(bound, int) else f"{text} {bound:g}")
    if schema.get("not") == {"const": 0}:
        words.append("not 0")
    return f" {' '.join(words)}" if words else ""


def built_in_models() -> TargetModels:
    """The options models of the targets that come with nnkit; other installed plugins document themselves."""
    plugins, own = target_plugins(), own_distribution()
    return {
        entry.name: entry.load().options for entry in plugins if entry.dist and own and entry.dist.name == own.name
    }


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

"""The reference page: complete, and up to date in the repository."""

from __future__ import annotations

import re
from pathlib import Path

from nnkit.recipe.json_schema import plain_json_schema
from nnkit.recipe.reference import built_in_models, reference_markdown

PAGE = Path(__file__).resolve().parents[2] / "docs" / "recipe_reference.md"


def test_every_key_of_the_schema_has_a_row(target_models) -> None:
    schema = plain_json_schema(target_models)
    page = reference_markdown(target_models)
    for section in [schema, *schema["$defs"].values()]:
        for key in section.get("properties", {}):
            assert f"\n| `{key}` | " in page


def test_links_lead_to_sections(target_models) -> None:
    page = reference_markdown(target_models)
    links = set(re.findall(r"\]\(#([^)]*)\)", page))
    assert links
    assert links <= set(re.findall(r'<a id="([^"]*)">', page))


def test_rows_say_type_default_and_meaning(target_models) -> None:
    page = reference_markdown(target_models)
    assert "| `count` | whole number from 1 or `null` | `null` | How many are used" in page
    assert "| `l2` | size in bytes | `524288` | On-chip memory. |" in page
    assert "## `targets.toy`\n\nA target for tests." in page
    assert "## `postprocess: face_crop`" in page


def test_tables_are_well_formed(target_models) -> None:
    rows = [line for line in reference_markdown(target_models).splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}


def test_the_page_in_the_repository_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference_markdown(built_in_models()), (
        "run: python -m nnkit.recipe.reference docs/recipe_reference.md"
    )

"""The pages say what the code has."""

from __future__ import annotations

import json
import re
from pathlib import Path

from nnkit.recipe import TargetOptionsBase
from nnkit.target import load_target
from nnkit_nnie.chips import CHIPS
from nnkit_nnie.limits.page import ALL_LIMITS, limits_page
from nnkit_nnie.options import Mapper, NnieInput, NnieOptions

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_page_of_limits_is_the_limits():
    assert (DOCS / "nnie_limits.md").read_text(encoding="utf-8") == limits_page()


def test_targets_show_prints_every_limit():
    page = limits_page()
    limits = load_target("nnie").limits()
    assert len(limits) == len(ALL_LIMITS)
    assert all(f"| {limit} |" in page for limit in limits)


def test_the_page_lists_every_option_and_chip():
    page = (DOCS / "nnie.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `([a-z_.<>]+)` \|", page.partition("## Options")[2], re.MULTILINE))
    own = set(NnieOptions.model_fields) - set(TargetOptionsBase.model_fields) - {"mapper", "inputs"}
    expected = own | {f"mapper.{name}" for name in Mapper.model_fields}
    assert listed == expected | {f"inputs.<name>.{name}" for name in NnieInput.model_fields}
    assert all(chip.title in page for chip in CHIPS.values())


def test_the_table_of_options_is_the_options():
    """Key, default and meaning, as the recipe's own reference has them."""
    page = (DOCS / "nnie.md").read_text(encoding="utf-8")
    known = {*TargetOptionsBase.model_fields, "mapper", "inputs"}
    for model, prefix in ((NnieOptions, ""), (NnieInput, "inputs.<name>."), (Mapper, "mapper.")):
        for name, field in model.model_fields.items():
            if model is NnieOptions and name in known:
                continue
            default = "required" if field.is_required() else f"`{_written(field.default)}`"
            assert f"| `{prefix}{name}` | {default} | {field.description} |" in page


def _written(default: object) -> str:
    return default if isinstance(default, str) else json.dumps(default)


def test_every_option_has_a_description():
    for model in (NnieOptions, NnieInput, Mapper):
        assert all(field.description for field in model.model_fields.values())

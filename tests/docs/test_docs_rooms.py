"""The drawing of rooms in the docs is the contract that CI holds imports to."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_drawing_is_the_contract() -> None:
    page = (ROOT / "docs/how_it_works.md").read_text(encoding="utf-8")
    drawn = re.search(r"## Who imports whom\n.*?```text\n(.*?)```", page, re.DOTALL)
    assert drawn is not None
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    assert [each["layers"] for each in contracts if each["type"] == "layers"] == [drawn[1].splitlines()]

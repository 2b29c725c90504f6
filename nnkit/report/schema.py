"""The JSON Schema of `report.json`, for programs that read reports."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any


def report_json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of `report.json`, as shipped beside this module."""
    text = files("nnkit.report").joinpath("report.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema

"""What several commands share: writing results."""

from __future__ import annotations

import json as json_module
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from nnkit.terminal import print_json_text


def print_json(data: Any) -> None:
    """A result for machines on stdout. A number that is not finite, which JSON has not, becomes null."""
    print_json_text(json_module.dumps(_finite(data), indent=2, ensure_ascii=False, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def byte_count(size: int) -> str:
    """Bytes for people: `351,872 B`."""
    return f"{size:,} B"


def not_built(recipe: Path, key: str, error: str, exit_code: int) -> dict[str, Any]:
    """What stands in the place of a build's report, or plan, where there is none."""
    return {"recipe": str(recipe), "target": key, "status": "failed", "error": error, "exit_code": exit_code}

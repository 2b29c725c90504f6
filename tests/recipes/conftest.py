"""The scripts of the default recipe, importable as they import each other: by their bare names."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

RECIPE = Path(__file__).resolve().parents[2] / "recipes" / "gap8_reid"

# Training needs the extra [train], which CI does without.
collect_ignore = [] if importlib.util.find_spec("torch") else ["test_gap8_reid_train.py"]


@pytest.fixture(scope="module", autouse=True)
def _scripts_importable() -> Iterator[None]:
    sys.path.insert(0, str(RECIPE))
    yield
    sys.path.remove(str(RECIPE))
    for script in RECIPE.glob("*.py"):
        sys.modules.pop(script.stem, None)

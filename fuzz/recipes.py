"""Recipes: those that are shipped, read and validated as `nnkit check` does."""

from __future__ import annotations

from pathlib import Path
from random import Random

from fuzz.damage import damaged_text

ROOT = Path(__file__).resolve().parents[1]
Seeds = tuple[str, ...]


def seeds(folder: Path) -> Seeds:
    """The texts of the shipped recipes."""
    return tuple(path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("recipes/*/recipe*.yaml")))


def attempt(given: Seeds, chance: Random, folder: Path) -> None:
    """One damaged recipe."""
    from nnkit.api.preparing import load

    path = folder / "recipe.yaml"
    path.write_bytes(damaged_text(chance.choice(given), chance, given))
    load(path)

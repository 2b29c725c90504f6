"""What a recipe could still ask of its target for more accuracy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Untried:
    """corrections: that the target offers and the recipe has not asked for. sixteen_bits: `hp: auto` may help."""

    corrections: tuple[str, ...] = ()
    sixteen_bits: bool = False

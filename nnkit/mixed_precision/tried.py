"""Sets of layers in 16 bits that a run has measured beside the build: what each would bring, and cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TriedLayers:
    """The network with these layers in 16 bits, as the run measured it.

    sqnr_db: of the outputs, against the float network. weight_bytes: of all weights, or beyond those in 8 bits; only
    differences are told. built: whether this is the build. recipe: the lines that ask for it.
    """

    layers: tuple[str, ...]
    sqnr_db: float
    weight_bytes: int
    built: bool = False
    recipe: str = ""


def tried_in_search(search: Mapping[str, Any], target: str) -> tuple[TriedLayers, ...]:
    """The sets that `hp: auto` measured, from a report's `mixed_precision`. target: its key in the recipe."""
    return tuple(
        TriedLayers(
            tuple(row["layers"]),
            row["sqnr_db"],
            row["extra_weight_bytes"],
            row["chosen"],
            f"targets: {{{target}: {{tags: {{hp: {listed(row['layers'])}}}}}}}",
        )
        for row in search["pareto"]
        if row["sqnr_db"] is not None
    )


def listed(names: Sequence[str]) -> str:
    """Names as a list in a line of YAML."""
    import json

    plain = all(name.replace("_", "").replace(".", "").replace("-", "").isalnum() for name in names)
    return f"[{', '.join(names)}]" if plain else json.dumps(list(names), ensure_ascii=False)

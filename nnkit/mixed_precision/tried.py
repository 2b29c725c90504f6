"""Sets of layers in 16 bits that a run has measured beside the build: what each would bring, and cost."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TriedLayers:
    """The network with these layers in 16 bits, as the run measured it.

    sqnr_db: of the outputs, against the float network. weight_bytes: of all weights, or beyond those in 8 bits; only
    differences are told. built: whether this is the build. everywhere: these are all layers, and the target has an
    option for that. options: of the target, as a recipe writes them, beside which the tags hold.
    """

    layers: tuple[str, ...]
    sqnr_db: float
    weight_bytes: int
    built: bool = False
    everywhere: bool = False
    options: str = ""


def tried_in_search(search: Mapping[str, Any]) -> tuple[TriedLayers, ...]:
    """The sets that `hp: auto` measured, from a report's `mixed_precision`."""
    return tuple(
        TriedLayers(tuple(row["layers"]), row["sqnr_db"], row["extra_weight_bytes"], row["chosen"])
        for row in search["pareto"]
        if row["sqnr_db"] is not None
    )


def recipe_line(tried: TriedLayers, target: str, origins: Mapping[str, Sequence[str]], cpu: Sequence[str]) -> str:
    """The line that asks for these layers in 16 bits. target: its key.

    origins: of each layer the imported ones whose arithmetic it does; tags hold for these. cpu: the tags that are
    there already, since tags of a target replace those of the recipe. Empty where a layer was made, not imported.
    """
    names: list[str] = []
    if not tried.everywhere:
        for layer in tried.layers:
            known = origins.get(layer, ())
            if not known:
                return ""
            names.append(layer if layer in known else known[0])
    kept = f", cpu: {listed(cpu)}" if cpu else ""
    options = f"{tried.options}, " if tried.options else ""
    return f"targets: {{{target}: {{{options}tags: {{hp: {listed(names)}{kept}}}}}}}"


def listed(names: Sequence[str]) -> str:
    """Names as a list in a line of YAML."""
    plain = all(re.fullmatch(r"[A-Za-z_][\w./-]*", name) for name in names)
    return f"[{', '.join(names)}]" if plain else json.dumps(list(names), ensure_ascii=False)

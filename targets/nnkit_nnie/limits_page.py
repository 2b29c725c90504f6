"""`docs/nnie_limits.md`, made from the limits themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnkit_nnie.chips import CHIPS
from nnkit_nnie.constraints import LAYER_LIMITS
from nnkit_nnie.layer_kinds import KNOWN_KINDS
from nnkit_nnie.limits import LIMITS, limit_remedy, limit_text
from nnkit_nnie.segments import NETWORK_LIMITS, SEGMENT_LIMITS
from nnkit_nnie.tag_rules import CPU_ON_DATA, TAG_RULES

ALL_LIMITS: tuple[Callable[..., object], ...] = (*LAYER_LIMITS, *TAG_RULES, *SEGMENT_LIMITS, *NETWORK_LIMITS)


def limits_page() -> str:
    """The page's text."""
    lines = [
        "# Limits of the NNIE",
        "",
        "Checked before anything is written; a build that exceeds some is told all of them at once, each with its",
        "layer and a remedy. This page is made from the checks themselves.",
        "",
        "| chip | NNIE | cores | mapper |",
        "|---|---|---|---|",
        *(f"| {c.title} | {c.generation} | {c.cores} | `{c.mapper}` |" for c in CHIPS.values()),
        "",
        "The limits are the same for all of them. A network compiled for the other generation does not load:",
        '"arch_version(12) of input model should be 11!".',
        "",
        "## Layers",
        "",
        "Known to the mapper: "
        + ", ".join(sorted(KNOWN_KINDS))
        + ". Any other type is written as Custom with the shapes",
        "of its tops and runs in a CPU segment.",
        "",
        *_table(LAYER_LIMITS),
        "",
        "## Tags",
        "",
        *_table(TAG_RULES),
        f"| {CPU_ON_DATA} | take the tag off the input |",
        "",
        "## Segments",
        "",
        *_table((*SEGMENT_LIMITS, *NETWORK_LIMITS)),
        "",
        f"Layer and blob names have at most {LIMITS['max_name_bytes']} bytes: longer ones are shortened when they",
        "are written, and `segments.json` says which is which. An image has 1 or 3 channels and sides of",
        f"{LIMITS['min_image_side']} to {LIMITS['max_image_side']:,} pixels.",
    ]
    return "\n".join(lines) + "\n"


def _table(limits: Sequence[Callable[..., object]]) -> list[str]:
    rows = [f"| {limit_text(limit, LIMITS)} | {limit_remedy(limit, LIMITS)} |" for limit in limits]
    return ["| limit | otherwise |", "|---|---|", *rows]

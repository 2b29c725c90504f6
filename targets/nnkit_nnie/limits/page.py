"""`docs/nnie_limits.md`, made from the limits themselves."""

from __future__ import annotations

from collections.abc import Sequence

from nnkit.constraints import Constraint, constraint_remedy, constraint_text
from nnkit_nnie.chips import CHIPS, NnieLimits
from nnkit_nnie.layer_kinds import KNOWN_KINDS
from nnkit_nnie.limits.constraints import INPUT_RULES, LAYER_LIMITS
from nnkit_nnie.limits.segment_limits import NETWORK_LIMITS, SEGMENT_LIMITS
from nnkit_nnie.limits.tag_rules import CPU_ON_DATA, TAG_RULES
from nnkit_nnie.mapper.caffe_pair import MAX_NAME_BYTES

ALL_LIMITS: tuple[Constraint, ...] = (*LAYER_LIMITS, *INPUT_RULES, *TAG_RULES, *SEGMENT_LIMITS, *NETWORK_LIMITS)
_COMMON = NnieLimits()


def limits_in_words() -> tuple[str, ...]:
    """Every limit and rule as a sentence, with the numbers that chips have in common."""
    return tuple(constraint_text(limit, _COMMON) for limit in ALL_LIMITS)


def limits_page() -> str:
    """The page's text."""
    lines = [
        "# Limits of the NNIE",
        "",
        "Checked before calibration begins; a build that exceeds some ends with all of them at once, each with its",
        "layer and a remedy. This page is made from the checks themselves.",
        "",
        "| chip | NNIE | cores | mapper |",
        "|---|---|---|---|",
        *(f"| {c.title} | {c.generation} | {c.cores} | `{c.mapper}` |" for c in CHIPS.values()),
        "",
        f"{_which_limits()} A network compiled for the other generation does not load:",
        '"arch_version(12) of input model should be 11!".',
        "",
        "## Layers",
        "",
        "Known to the mapper: "
        + ", ".join(sorted(KNOWN_KINDS))
        + ". Any other type is written as Custom with the shapes",
        "of its tops and runs in a CPU segment.",
        "",
        *_table((*LAYER_LIMITS, *INPUT_RULES)),
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
        f"Layer and blob names have at most {MAX_NAME_BYTES} bytes: longer ones are shortened when they",
        "are written, and `segments.json` says which is which. An image has 1 or 3 channels and sides of",
        f"{_COMMON.min_image_side} to {_COMMON.max_image_side:,} pixels.",
    ]
    return "\n".join(lines) + "\n"


def _which_limits() -> str:
    """Which chips the numbers on the page hold for, and what others have instead."""
    common = _COMMON.texts
    differing = [
        f"{chip.title} has {name} {text}"
        for chip in CHIPS.values()
        for name, text in chip.limits.texts.items()
        if text != common[name]
    ]
    if not differing:
        return "The limits are the same for all of them."
    return f"The limits are the same for all of them, but: {'; '.join(differing)}."


def _table(limits: Sequence[Constraint]) -> list[str]:
    rows = [f"| {constraint_text(limit, _COMMON)} | {constraint_remedy(limit, _COMMON)} |" for limit in limits]
    return ["| limit | otherwise |", "|---|---|", *rows]

"""Accumulators, bounded again: with the sums of weights and the bounds of inputs that the report states, no sum of a
convolution that it calls proven leaves its accumulator.

The weights themselves are not read: an artifact holds them in its target's form.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from nnkit.package.contradiction import ContradictionError
from nnkit.package.evidence import REPORT, Evidence

_ACCUMULATOR_BITS = {"int32": 32, "int64": 64}


def check_accumulators(evidence: Evidence) -> int:
    """The number of layers whose sums were bounded again. Raises ContradictionError for the first that does not
    hold, or that wrapped although it is called proven; KeyError, TypeError or ValueError where a layer says none."""
    file = evidence.file(REPORT)
    bounded = 0
    for layer in evidence.report["layers"]:
        if layer["proof"] == "proven" and layer.get("observed", {}).get("wraps"):
            raise ContradictionError(file, f"sums of {layer['name']!r} are called proven, and wrapped")
        if is_bounded(layer):
            _stays_within(layer, file)
            bounded += 1
    return bounded


def is_bounded(layer: Mapping[str, Any]) -> bool:
    """Whether the report states what bounds the layer's sums."""
    return "accumulator_sums" in layer and layer["proof"] == "proven"


def _stays_within(layer: Mapping[str, Any], file: str) -> None:
    """Whether the sums of a convolution, as far as they can reach, fit its accumulator."""
    sums, limit = layer["accumulator_sums"], 1 << (_ACCUMULATOR_BITS[layer["accumulator"]] - 1)
    low, high = int(sums["low"]), int(sums["high"])
    form = re.match(r"([su])(\d+)\.", layer["formats"]["input0"])
    if form and form[1] == "s" and not (-(1 << (int(form[2]) - 1)) <= low and high < 1 << (int(form[2]) - 1)):
        does_not_hold = f"which {layer['formats']['input0']} does not hold"
        raise ContradictionError(file, f"{layer['name']!r} reads {low}..{high}, {does_not_hold}")
    if not low <= 0 <= high or not sums["channels"] or sums["rounding"] < 0:
        raise ContradictionError(file, f"the bounds of {layer['name']!r} are none")
    for channel in sums["channels"]:
        positive, negative, start = (int(channel[key]) for key in ("positive", "negative", "start"))
        most = positive * high + negative * low + start + int(sums["rounding"])
        least = positive * low + negative * high + start
        if positive < 0 or negative > 0 or not (-limit <= least and most < limit):
            raise ContradictionError(
                file,
                f"sums of {layer['name']!r} reach {least} and {most}, beyond an {layer['accumulator']} accumulator",
            )

"""Bounds on what a file of few bytes can ask for beside memory: lengths of names, numbers of layers, windows.

A name of 20 MB, a pool whose window spans millions of values, a dilation of 2^62: no network for these targets has
them, and each costs minutes, gigabytes, or C that no compiler takes. The largest networks in use have some thousands
of layers, names of some hundred letters, and pools that read a few hundred million values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from nnkit.errors import ModelError
from nnkit.trust.settings import MOST_SIZE_FACTOR, SIZE_VARIABLE, user_settings

LAYERS = 20_000
MOST_LAYERS_COUNTED = int(LAYERS * MOST_SIZE_FACTOR) + 1
"""More than that is beyond what anybody can allow."""
NAME_LETTERS = 65_536
WINDOW_VALUES = 1 << 20
"""Values that one window may span, and the largest stride, dilation or padding."""
WINDOW_READS = 10_000_000_000
"""Values that all pools of a network may read through their windows: about ten seconds of ONNX Runtime."""

_SHOWN_LETTERS = 40


def check_layers(count: int, where: str, *, functions: int = 0) -> None:
    """Raises ModelError for more layers than a network may have. functions: of the model, which are inlined in it."""
    inlined = f" or more when its {functions} functions are inlined" if functions else ""
    check_bound(f"the network has {count:,} layers{inlined}", count, LAYERS, where)


def check_names(names: Iterable[str], where: str) -> None:
    """Raises ModelError for a name that is longer than one may be."""
    longest = max(names, key=len, default="")
    check_bound(
        f"the name '{longest[:_SHOWN_LETTERS]}...' has {len(longest):,} letters", len(longest), NAME_LETTERS, where
    )


def check_bound(reason: str, found: int, usual: int, where: str) -> None:
    """Raises ModelError for more than the user allows, with what to do: more can be allowed, up to a point."""
    allowed = int(usual * user_settings().size_factor)
    if found <= allowed:
        return
    factor = math.ceil(found / usual)
    remedy = "check which file this is, or export the network again"
    if factor <= MOST_SIZE_FACTOR:
        remedy = f"{remedy}; if it is meant so, allow more: {SIZE_VARIABLE}={factor}"
    raise ModelError(f"{reason}; at most {allowed:,} are allowed", where=where, remedy=remedy)

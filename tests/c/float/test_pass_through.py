"""PassThrough in C, to the bit."""

from __future__ import annotations

from collections.abc import Callable

from segment_networks import uniform

from nnkit.custom_ops import PassThrough

Check = Callable[..., None]


def test_pass_through_is_exact(agrees: Check) -> None:
    agrees([PassThrough(2, 3).node(["x"], ["pass"])], {"x": uniform(1, 8, 6, 12)}, rtol=0, atol=0)

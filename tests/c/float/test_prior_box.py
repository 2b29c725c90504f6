"""PriorBox as constants of the C code, to the bit."""

from __future__ import annotations

from collections.abc import Callable

from segment_networks import uniform

from nnkit.custom_ops import PriorBox

Check = Callable[..., None]


def test_prior_box_is_exact(agrees: Check) -> None:
    op = PriorBox((20.0, 31.5), (50.5, 70.0), (2.0, 3.0), variance=(0.1, 0.1, 0.2, 0.2))
    inputs = {"x": uniform(1, 8, 6, 12), "image": uniform(1, 3, 64, 96)}
    agrees([op.node(["x", "image"], ["boxes"])], inputs, rtol=0, atol=0)

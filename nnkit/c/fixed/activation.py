"""An activation on its own: an output stage alone."""

from __future__ import annotations

from nnkit.c.fixed.elementwise import ElementwiseC
from nnkit.program import Activation


class ActivationC(ElementwiseC[Activation]):
    """The clamp or slopes of an activation that no other op takes in."""

    kind = "requantize"

"""What a recipe could still ask of its target for more accuracy, and what the run knows of that already."""

from __future__ import annotations

from dataclasses import dataclass

from nnkit.mixed_precision.tried import TriedLayers

KEPT_FORMATS = "the network is quantised already: its formats and the integers of its weights are kept"
"""The note of a program that took both from the model: nothing of calibration changes it."""


@dataclass(frozen=True)
class Untried:
    """corrections: that the target offers and this build has not tried. sixteen_bits: `hp: auto` may help.

    tried_corrections: what a line that asks for the others has to keep. chosen: the recipe names its corrections
    itself, or that there are none. tried: sets of layers in 16 bits that the run has measured beside the build. cpu:
    the globs of layers that the recipe keeps on the CPU.
    """

    corrections: tuple[str, ...] = ()
    tried_corrections: tuple[str, ...] = ()
    chosen: bool = False
    sixteen_bits: bool = False
    tried: tuple[TriedLayers, ...] = ()
    cpu: tuple[str, ...] = ()

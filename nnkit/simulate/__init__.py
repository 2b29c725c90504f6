"""Bit-exact execution of a Program in numpy."""

from nnkit.simulate.run import simulate, simulate_op
from nnkit.simulate.watch import OpWatch, Watch

__all__ = ["OpWatch", "Watch", "simulate", "simulate_op"]

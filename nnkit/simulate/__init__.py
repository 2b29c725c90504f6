"""Bit-exact execution of a Program in numpy."""

from nnkit.program.watch import OpWatch, Watch
from nnkit.simulate.run import simulate, simulate_many, simulate_op

__all__ = ["OpWatch", "Watch", "simulate", "simulate_many", "simulate_op"]

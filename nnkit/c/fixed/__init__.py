"""Kernels of power-of-two fixed point, an operator of `nnkit.program.fixed` a file, its template beside it.

`catalogue` knows which C each op has. A target asks it for the needs of every op, the weights as the kernels read
them, the calls with their constants, and the C files with the functions that a network uses.
"""

"""Float kernels in C90, an operator a file: how its node becomes calls of C functions, with the C beside it.

`<op>.py` reads the node by the readers of `nnkit.graph.read`, states what the kernel needs (scratch, tables,
constants) and refuses what it cannot do; `nnkit_<kernel>.c` is the kernel, declared in `nnkit_segment.h`.
`catalogue.py` lists all operators.
"""

"""Portable C of the affine integer programs: each op's calls, the kernels' templates, their common header."""

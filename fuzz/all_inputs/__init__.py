"""Kernels of the emitted C against the definitions of their operators, on every input that small shapes can have."""

"""A program of one convolution, with numbers that can be followed by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nnkit.program import Conv2d, Convolution, Fixed, OutputStage, Program, Tensor, Window

S16 = Fixed(16, 0)


def conv_op(weight: np.ndarray, window: Window, **fields: object) -> Conv2d:
    """Biases 1, 2, 3 ... shifted left by 3; sums shifted right by 5."""
    base = Conv2d(
        name="c",
        inputs=("x",),
        output="y",
        weight=weight,
        weight_bits=16,
        weight_frac=0,
        bias=np.arange(1, weight.shape[0] + 1, dtype=np.int32),
        bias_frac=0,
        bias_shift=3,
        window=window,
        stage=OutputStage(5, -32768, 32767),
    )
    return replace(base, **fields)  # type: ignore[arg-type]


def program_of(op: Convolution, in_shape: tuple[int, ...], out_shape: tuple[int, ...]) -> Program:
    """From x to y, both s16."""
    tensors = {
        "x": Tensor("x", in_shape, S16, S16.qmin, S16.qmax),
        "y": Tensor("y", out_shape, S16, S16.qmin, S16.qmax),
    }
    return Program("net", tensors, (op,), ("x",), ("y",))

"""Maximum and average pools."""

from __future__ import annotations

import numpy as np

from nnkit.c.affine.call import Call, Kernel, Table, suffix, window_numbers
from nnkit.c.affine.overlap import window_accesses
from nnkit.graph.refusal import Refused
from nnkit.program.affine import AffinePool, AffineTensor


def pool_call(op: AffinePool, source: AffineTensor, output: AffineTensor) -> Call:
    """The one call."""
    window, stage = op.window, op.requantize
    channels, height, width = source.shape
    numbers = {
        "height": height,
        "width": width,
        "channels": channels,
        "out_height": output.shape[1],
        "out_width": output.shape[2],
        "y_stride": channels,
        **window_numbers(window),
        "counts": int(bool(op.by_count)),
        "x_zero": source.zero_point,
        "zero": output.zero_point,
        "low": output.low if stage is None else stage.clip_min,
        "high": output.high if stage is None else stage.clip_max,
    }
    variant: tuple[tuple[str, str], ...] = (("kind", "max"), ("x", suffix(source)), ("y", suffix(output)))
    tables = {}
    if op.pool == "average":
        if stage is None:
            raise Refused("an average without rescaling")
        pairs = np.stack(op.by_count) if op.by_count else np.array([[stage.multiplier[0], stage.shift[0]]])
        tables = {"rescale": Table("ints", pairs)}
        variant = (("kind", "average"), *variant[1:], ("sum", "s64" if op.accumulator == "int64" else ""))
    return Call(
        Kernel("pool", "pool", variant), numbers, op.inputs, op.output, tables,
        accesses=window_accesses(window, source, output, reads_last=True), strided=True,
    )  # fmt: skip

"""How far the result of a window kernel may be written below the input that is still read."""

from __future__ import annotations

import numpy as np

from nnkit.memory.diagonal import Trace, channels_last, safe_distance_bytes
from nnkit.memory.diagonal import Window as Accesses
from nnkit.program import Window
from nnkit.program.affine import AffineTensor


def window_distance(
    window: Window, source: AffineTensor, output: AffineTensor, *, together: int = 1, reads_last: bool
) -> int:
    """The safe distance of a kernel that goes pixel by pixel, `together` of them at a time, channels innermost.

    reads_last: it still reads the windows of these pixels after it has written some of their channels.
    """
    accesses = Accesses(
        source.shape[1],
        source.shape[2],
        output.shape[1],
        output.shape[2],
        (window.kernel_h, window.kernel_w),
        (window.stride_h, window.stride_w),
        (window.pad_top, window.pad_left),
        (window.dilation_h, window.dilation_w),
    )
    trace = channels_last(accesses, source.shape[0], output.shape[0], source.format.bytes, output.format.bytes)
    starts = np.arange(0, len(trace.first_read), together)
    reads = np.minimum.reduceat(trace.first_read, starts)
    writes = np.maximum.reduceat(trace.write_end, starts)
    times = 2 if reads_last else 1
    return safe_distance_bytes(Trace(np.repeat(reads, times), np.repeat(writes, times), trace.no_read))

"""In which order window kernels read and write, whose result may be written below the input that is still read."""

from __future__ import annotations

from nnkit.memory.accesses import Accesses
from nnkit.memory.diagonal import Window as Shape
from nnkit.program import Window
from nnkit.program.affine import AffineTensor


def window_accesses(
    window: Window, source: AffineTensor, output: AffineTensor, *, together: int = 1, reads_last: bool
) -> Accesses:
    """A kernel that goes pixel by pixel, `together` of them at a time, channels innermost.

    reads_last: it still reads the windows of these pixels after it has written some of their channels.
    """
    shape = Shape(
        source.shape[1],
        source.shape[2],
        output.shape[1],
        output.shape[2],
        (window.kernel_h, window.kernel_w),
        (window.stride_h, window.stride_w),
        (window.pad_top, window.pad_left),
        (window.dilation_h, window.dilation_w),
    )
    return Accesses(
        "pixels", shape, source.shape[0], output.shape[0], source.format.bytes, output.format.bytes,
        together=together, rereads=reads_last,
    )  # fmt: skip

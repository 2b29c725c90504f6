"""Convolutions of 8-bit values by dot products of words, on tiles in a scratchpad that cores share.

Values lie pixel by pixel, channels innermost, so that four channels of a pixel are a word as they are. Where there is
padding, or a pixel's channels are no whole words, the tile's rows are copied into an *image* first. A depthwise
convolution's image has a plane for each channel, in which the taps of a kernel row lie side by side.

Weights come in blocks of four output channels: what their sums start from, multipliers and shifts (and multipliers of
negative sums), then the weights in the order in which the image is read.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nnkit.c.affine.call import Call, Kernel, Table
from nnkit.c.affine.conv import centred_weight, conv_call
from nnkit.c.affine.depthwise import depthwise_call, is_depthwise
from nnkit.program.affine import AffineConv, AffineTensor

LANES = 4  # output channels of a block, and values of a word
_WIDEST = 8  # a depthwise kernel's row, in taps


def packed_call(op: AffineConv, source: AffineTensor, output: AffineTensor) -> Call | None:
    """The call on tiles; None where a convolution has none of words: it has other numbers than of 8 bits, sums of 64
    bits, groups, or columns that lie apart."""
    depthwise = is_depthwise(op)
    if op.transposed or op.window.dilation_w != 1 or (op.groups != 1 and not depthwise):
        return None
    if depthwise:
        plain = depthwise_call(op, source, output)
        usable = op.window.kernel_w <= _WIDEST
    else:
        plain = conv_call(op, source, output)
        usable = True
    variant = plain.kernel.values
    if variant["x"] not in ("u8", "i8") or variant["w"] != "i8" or variant["sum"] or not usable:
        return None
    stage = [(name, variant[name]) for name in ("form", "clamp", "lifted", "negative")]
    structure = "packed_depthwise" if depthwise else "packed"
    kernel = Kernel("packed", structure, (("image", ""), ("x", variant["x"]), ("y", variant["y"]), *stage))
    lanes = _lanes(centred_weight(op), axis=2 if depthwise else 3)
    blocks = _blocks(plain.tables["stages"].values, lanes)
    numbers = _depthwise_numbers(op, plain) if depthwise else _numbers(op, plain)
    numbers |= {"block_bytes": blocks.shape[1]}
    numbers |= {name: plain.numbers[name] for name in ("lift", "zero", "low", "high")}
    return Call(kernel, numbers, op.inputs, op.output, {"blocks": Table("bytes", blocks)}, strided=True)


def stored_by_loops(kernel: Kernel) -> bool:
    """Whether blocks and rows can be rounded and stored by the loops of `nnkit_affine_packed.h`."""
    v = kernel.values
    return v["form"] == "fast" and v["clamp"] == v["y"] and not v["lifted"] and not v["negative"]


def image_kernel(kernel: Kernel) -> Kernel:
    """What makes the image that the kernel reads."""
    variant = {name: "" for name, _ in kernel.variant}
    return Kernel("packed", kernel.structure, tuple((variant | {"image": "image", "x": kernel.values["x"]}).items()))


def _numbers(op: AffineConv, plain: Call) -> dict[str, int]:
    window, numbers = op.window, plain.numbers
    channels = numbers["channels"]
    image = window.has_padding or channels % LANES != 0
    entry = -(-channels // LANES) * LANES
    width = (numbers["out_width"] - 1) * window.stride_w + window.kernel_w if image else numbers["width"]
    same = ("height", "width", "channels", "out_height", "out_width", "out_channels", "y_stride")
    return {
        **{name: numbers[name] for name in same},
        **{
            name: numbers[name] for name in ("kernel_h", "stride_h", "dilation_h", "pad_top", "pad_left", "pad_value")
        },
        "image": int(image),
        "image_w": width,
        "entry_bytes": entry,
        "pixel_bytes": entry * window.stride_w,
        "row_groups": entry // LANES * window.kernel_w,
    }


def _depthwise_numbers(op: AffineConv, plain: Call) -> dict[str, int]:
    window, numbers = op.window, plain.numbers
    words = -(-window.kernel_w // LANES)
    lead = -(-window.pad_left // LANES) * LANES  # so that a row's first value begins a word
    last = lead - window.pad_left + (numbers["out_width"] - 1) * window.stride_w + words * LANES
    line = -(-max(last, lead + numbers["width"]) // LANES) * LANES
    same = ("height", "width", "channels", "out_height", "out_width", "y_stride", "kernel_h", "stride_h", "stride_w")
    return {
        **{name: numbers[name] for name in same},
        **{name: numbers[name] for name in ("dilation_h", "pad_top", "pad_left", "pad_value")},
        "lead": lead,
        "line_bytes": line,
        "words": words,
    }


def _lanes(weight: NDArray[np.int64], axis: int) -> NDArray[np.int64]:
    """[O, I, kh, kw] -> [O, words, 4]: row by row, pixel by pixel, `axis` filled up with zeros to whole words.

    axis: of [O, kh, kw, I], 3 for the channels of a pixel, 2 for the taps of a kernel row.
    """
    values = weight.transpose(0, 2, 3, 1)
    padding = [(0, -values.shape[each] % LANES if each == axis else 0) for each in range(4)]
    return np.pad(values, padding).reshape(len(weight), -1, LANES)


def _blocks(stages: NDArray[np.int64], lanes: NDArray[np.int64]) -> NDArray[np.int64]:
    """[blocks, bytes]: of four channels the columns of their stages, then word after word of all four."""
    count = -(-len(lanes) // LANES)
    heads = np.zeros((count * LANES, stages.shape[1]), np.int64)
    heads[: len(stages)] = stages
    padded = np.zeros((count * LANES, *lanes.shape[1:]), np.int64)
    padded[: len(lanes)] = lanes
    head = heads.reshape(count, LANES, -1).transpose(0, 2, 1)
    words = padded.reshape(count, LANES, -1, LANES).transpose(0, 2, 1, 3)
    head_bytes = (head & 0xFFFFFFFF).astype("<u4").reshape(count, -1).view("i1")
    return np.concatenate([head_bytes, words.astype("i1").reshape(count, -1)], axis=1).astype(np.int64)

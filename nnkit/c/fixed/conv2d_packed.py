"""Dense convolution by packed dot products, on tiles in a scratchpad that cores share.

The tile's rows become an *image* first: entries of lanes, the channels of one pixel (padded to whole groups of 4
bytes, with the padding of the convolution around them), or, *folded*, the channels of all pixels of a kernel row,
which is denser where channels are few. Weights are packed in the image's order, so that the inner loop reads both in
line. That loop and `struct nnkit_packed_conv` are the target's, in `nnkit_packed.h`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nnkit.c.fixed.layer import Call, Constant, stage_lines
from nnkit.c.fixed.machine import CoreMachine
from nnkit.c.fixed.operator import Declaration, Function, OperatorC, Source
from nnkit.c.fixed.pool import fused_pool_constant, fused_row, packed_pool
from nnkit.c.fixed.types import CType, chw, ctype
from nnkit.c.fixed.weight_blocks import LANES, pack_lanes
from nnkit.memory.needs import KernelNeeds
from nnkit.program import Conv2d, Fixed, Program

GROUP_BYTES = 4
BLOCK_PIXELS = 4


@dataclass(frozen=True)
class PackedLayout:
    """How a dense convolution is packed. Sizes as in `struct nnkit_packed_conv`.

    lane: the image's type; weights have the signed one of its size.
    """

    lane: CType
    folded: bool
    image_w: int
    entry_groups: int
    row_groups: int
    pixel_groups: int
    rows: int
    leaky: bool

    @property
    def lanes(self) -> int:
        """Lanes of a group."""
        return GROUP_BYTES // self.lane.bytes

    @property
    def groups(self) -> int:
        """Groups that make one output value."""
        return self.rows * self.row_groups

    @property
    def head_bytes(self) -> int:
        """A block's starts, and its slopes."""
        return 4 * LANES + (2 * LANES if self.leaky else 0)

    @property
    def block_bytes(self) -> int:
        """Bytes of the packed weights of four output channels."""
        return self.head_bytes + self.groups * LANES * GROUP_BYTES

    @property
    def image_row_bytes(self) -> int:
        """Bytes of one row of the packed image."""
        return self.image_w * self.entry_groups * GROUP_BYTES

    @property
    def taps(self) -> int:
        """Entries of the image that make one output value."""
        return self.groups // self.entry_groups

    @property
    def can_be_sliced(self) -> bool:
        """Whether the input's channels may come in slices, with the sums kept in between.

        Not where an entry holds a kernel row. Nor with slopes: they lie in front of the first slice's weights, and
        the last slice would need them.
        """
        return not self.folded and not self.leaky and self.entry_groups > 1


def why_not_packed(op: Conv2d, program: Program) -> str | None:
    """Why a convolution has no packed kernel; None: it has one."""
    x = program.tensors[op.inputs[0]].fixed
    if op.groups != 1:
        return "grouped convolution"
    if op.accumulate != "wide":
        return "rounds after every input channel"
    if op.accumulator != "int32":
        return "64-bit accumulator"
    if x.bits == 16 and not x.signed:
        return "unsigned input of 16 bits"
    return None


def packed_layout(op: Conv2d, program: Program) -> PackedLayout:
    """The denser of the two images; see `why_not_packed`."""
    x, window = program.tensors[op.inputs[0]], op.window
    channels, height, width = chw(x)
    _, out_w = window.output_hw(height, width)
    bits = max(x.fixed.bits, op.weight_bits)
    lane = ctype(x.fixed if x.fixed.bits == bits else Fixed(bits, 0))
    lanes = GROUP_BYTES // lane.bytes
    entry = -(-channels // lanes)
    folded = -(-channels * window.kernel_w // lanes)
    if window.dilation_w > 1 or folded < entry * window.kernel_w or (window.kernel_w == 1 and window.stride_w > 1):
        return PackedLayout(lane, True, out_w, folded, folded, folded, window.kernel_h, op.stage.leaky is not None)
    return PackedLayout(
        lane,
        False,
        (out_w - 1) * window.stride_w + window.kernel_w,
        entry,
        entry * window.kernel_w,
        entry * window.stride_w,
        window.kernel_h,
        op.stage.leaky is not None,
    )


@dataclass(frozen=True, order=True)
class ImageFunction(Function):
    """Makes the image of a tile."""

    x: CType
    lane: CType

    @property
    def name(self) -> str:
        return f"image_{self.x.tag}_{self.lane.tag}"


@dataclass(frozen=True, order=True)
class PackedFunction(Function):
    """The convolution of an image. sliced: of some of its channels, with 32-bit sums kept between the slices."""

    lane: CType
    y: CType
    leaky: bool
    sliced: bool = False

    @property
    def name(self) -> str:
        suffix = "_leaky" if self.leaky else "_slice" if self.sliced else ""
        return f"conv_packed_{self.lane.tag}_{self.y.tag}{suffix}"


class PackedConv2dC(OperatorC[Conv2d]):
    """`struct nnkit_packed_conv`: a call for the image, one for the convolution, and one for a pool behind it.

    All of them work on tiles: a schedule makes tiles and brings the fields that a tile changes.
    slice_groups: groups of an entry that a slice of the input's channels has; 0: all channels at once.
    """

    def __init__(self, program: Program, slice_groups: int = 0) -> None:
        self.program = program
        self.slice_groups = slice_groups

    def functions(self, op: Conv2d, program: Program) -> tuple[Function, ...]:
        """Image, convolution, and pool with its row function."""
        y = program.tensors[op.output].fixed
        layout = packed_layout(op, program)
        image = ImageFunction(ctype(program.tensors[op.inputs[0]].fixed), layout.lane)
        convolution = PackedFunction(layout.lane, ctype(y), layout.leaky, self.slice_groups > 0)
        if op.pool is None:
            return image, convolution
        return image, convolution, packed_pool(op.pool, y), fused_row(op.pool, y)

    def calls(self, op: Conv2d, program: Program, machine: CoreMachine, name: str) -> tuple[Call, ...]:
        """The calls in order; their layers are those of the whole tensor."""
        image, convolution, *pool = self.functions(op, program)
        constant = _constant(name, op, program)
        calls = [Call(image.name, name, (0,), ()), Call(convolution.name, name, (0,), (constant,))]
        if op.pool is not None:
            conv_hw = op.window.output_hw(*chw(program.tensors[op.inputs[0]])[1:])
            pooled = fused_pool_constant(f"{name}_pool", op.pool, conv_hw, program.tensors[op.output])
            calls.append(Call(pool[0].name, pooled.name, (0,), (pooled,)))
        return tuple(calls)

    def needs(self, op: Conv2d, program: Program, machine: CoreMachine) -> KernelNeeds:
        """Weight blocks; scratch is the schedule's."""
        layout = packed_layout(op, program)
        blocks = -(-op.weight.shape[0] // LANES)
        # Every chunk of weights brings the input to the scratchpad again.
        return KernelNeeds(
            weight_block_bytes=(layout.block_bytes,) * blocks, min_blocks_per_chunk=blocks, repacks_input=True
        )

    def weight_blocks(self, op: Conv2d) -> list[bytes]:
        """See `packed_blocks`."""
        return packed_blocks(op, self.program, self.slice_groups)


def packed_blocks(op: Conv2d, program: Program, slice_groups: int = 0) -> list[bytes]:
    """The weight blocks of 4 output channels: starts, slopes, then groups of lanes of each channel in turn.

    A channel's lanes are kernel row by kernel row, in each pixel by pixel its channels, with zeros where a group or
    an entry has more lanes than there are numbers. With `slice_groups` (see `PackedConv2dC`) slice by slice.
    """
    layout = packed_layout(op, program)
    lanes = _lanes(op.weight.astype(np.int64), layout)  # [O, groups, lanes]
    if slice_groups:
        taps = lanes.reshape(len(lanes), layout.taps, layout.entry_groups, layout.lanes)
        slices = [taps[:, :, at : at + slice_groups] for at in range(0, layout.entry_groups, slice_groups)]
        lanes = np.concatenate([part.reshape(len(lanes), -1, layout.lanes) for part in slices], axis=1)
    return pack_lanes(op, lanes, layout.lane.bytes)


def _lanes(weight: NDArray[np.int64], layout: PackedLayout) -> NDArray[np.int64]:
    """[O, I, kh, kw] -> [O, groups, lanes]."""
    taps = weight.transpose(0, 2, 3, 1)  # [O, kh, kw, I]
    if not layout.folded:
        return entries(taps, layout)
    rows = taps.reshape(*taps.shape[:2], -1)
    room = layout.row_groups * layout.lanes - rows.shape[2]
    return np.pad(rows, ((0, 0), (0, 0), (0, room))).reshape(len(rows), layout.groups, layout.lanes)


def entries(taps: NDArray[np.int64], layout: PackedLayout) -> NDArray[np.int64]:
    """[O, kh, kw, I] -> [O, groups, lanes], each tap in an entry of its own."""
    room = layout.entry_groups * layout.lanes - taps.shape[3]
    return np.pad(taps, ((0, 0), (0, 0), (0, 0), (0, room))).reshape(len(taps), -1, layout.lanes)


def packed_source(functions: Collection[Function]) -> Source | None:
    """The file with all images and packed convolutions."""
    images = sorted({function for function in functions if isinstance(function, ImageFunction)})
    variants = sorted({function for function in functions if isinstance(function, PackedFunction)})
    if not images and not variants:
        return None
    declarations = (
        *(
            Declaration(each.name, f"struct nnkit_packed_conv: image of {each.x.tag} in {each.lane.tag}")
            for each in images
        ),
        *(
            Declaration(each.name, f"struct nnkit_packed_conv: packed {each.lane.tag} -> {each.y.tag}")
            for each in variants
        ),
    )
    lanes = sorted({each.lane for each in variants})
    quick = sorted({each.x for each in images if each.x == each.lane})
    values = {"images": images, "variants": variants, "lanes": lanes, "quick_lanes": quick}
    return Source("packed", "conv2d_packed.c.j2", values, declarations)


def _constant(name: str, op: Conv2d, program: Program) -> Constant:
    channels, height, width = chw(program.tensors[op.inputs[0]])
    out_h, out_w = op.window.output_hw(height, width)
    layout, window = packed_layout(op, program), op.window
    return Constant(
        "struct nnkit_packed_conv",
        name,
        (
            (f"{channels}, {height}, {width}", "input channels, height, width"),
            (f"{op.weight.shape[0]}, {out_h}, {out_w}", "output channels, height, width"),
            (f"{window.stride_h}, {window.stride_w}", "stride"),
            (f"{window.pad_top}, {window.pad_left}, {op.pad_value}", "padding above, left; its value"),
            (f"{window.kernel_h}, {window.kernel_w}", "kernel"),
            (f"{window.dilation_h}, {window.dilation_w}", "dilation"),
            (f"{int(layout.folded)}", "an entry is a kernel row (1) or a pixel (0)"),
            (f"{layout.image_w}, {layout.entry_groups}", "entries of an image row, groups of an entry"),
            (f"{layout.row_groups}, {layout.pixel_groups}", "groups of a kernel row, from pixel to pixel"),
            (f"{layout.block_bytes}", "bytes of a block"),
            *stage_lines(op.stage, program.tensors[op.output].fixed),
            (f"{out_h * out_w}", "elements of an output plane"),
            ("1, 1", "the first and the last slice of the input channels"),
        ),
    )

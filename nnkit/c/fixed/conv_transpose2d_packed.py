"""Transposed convolution by packed dot products, on tiles in a scratchpad that cores share.

Outputs that lie a whole number of strides apart take the same taps: a phase, see `conv_transpose2d`. Each phase is a
convolution of stride 1, and all phases read one image of the input, that of `conv2d_packed`. A tile's row is what one
row of the input gives: as many rows of the output as the stride says.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nnkit.c.fixed.conv2d_packed import GROUP_BYTES, ImageFunction, PackedLayout, entries
from nnkit.c.fixed.conv_transpose2d import Phase, Tap, output_phases
from nnkit.c.fixed.layer import Call, Constant, stage_lines
from nnkit.c.fixed.machine import CoreMachine
from nnkit.c.fixed.operator import Declaration, Function, OperatorC, Source
from nnkit.c.fixed.types import CType, chw, ctype
from nnkit.c.fixed.weight_blocks import LANES, pack_lanes
from nnkit.memory.needs import KernelNeeds
from nnkit.program import ConvTranspose2d, Fixed, Program

MOST_STRIDE = 4  # NNKIT_MOST_APART: phases of one side that `struct nnkit_packed_transposed` has room for


@dataclass(frozen=True)
class TransposedLayout:
    """How a transposed convolution is packed.

    image: as of a convolution of stride 1 whose window reaches over the taps of all phases. phases: row by row, taps
    in the order of the image. rows, columns: outputs of a phase. pad_top, pad_left: of the image.
    """

    image: PackedLayout
    phases: tuple[Phase, ...]
    rows: int
    columns: int
    pad_top: int
    pad_left: int

    @property
    def groups(self) -> int:
        """Groups of lanes of the weights of an output channel, of all phases."""
        return sum(self.phase_groups(phase) for phase in self.phases)

    @property
    def block_bytes(self) -> int:
        """Bytes of the packed weights of four output channels."""
        return self.image.head_bytes + self.groups * LANES * GROUP_BYTES

    def phase_groups(self, phase: Phase) -> int:
        """Groups that make one output value of a phase."""
        return len(phase.taps_y) * len(phase.taps_x) * self.image.entry_groups


def why_transposed_not_packed(op: ConvTranspose2d, program: Program) -> str | None:
    """Why a transposed convolution has no packed kernel; None: it has one."""
    x, window = program.tensors[op.inputs[0]].fixed, op.window
    _, out_h, out_w = chw(program.tensors[op.output])
    if op.groups != 1:
        return "grouped transposed convolution"
    if (window.dilation_h, window.dilation_w) != (1, 1):
        return "dilated transposed convolution"
    if op.accumulator != "int32":
        return "64-bit accumulator"
    if x.bits == 16 and not x.signed:
        return "unsigned input of 16 bits"
    if max(window.stride_h, window.stride_w) > MOST_STRIDE:
        return f"a stride over {MOST_STRIDE}"
    if window.kernel_h < window.stride_h or window.kernel_w < window.stride_w:
        return "outputs that no tap reaches"
    if out_h % window.stride_h or out_w % window.stride_w:
        return "an output that is no whole number of strides"
    return None


def transposed_layout(op: ConvTranspose2d, program: Program) -> TransposedLayout:
    """The layout of an op that `why_transposed_not_packed` has nothing against."""
    x, window = program.tensors[op.inputs[0]], op.window
    channels, _, _ = chw(x)
    _, out_h, out_w = chw(program.tensors[op.output])
    bits = max(x.fixed.bits, op.weight_bits)
    lane = ctype(x.fixed if x.fixed.bits == bits else Fixed(bits, 0))
    entry = -(-channels // (GROUP_BYTES // lane.bytes))
    phases = tuple(
        Phase(phase.y, phase.x, _in_order(phase.taps_y), _in_order(phase.taps_x)) for phase in output_phases(window)
    )
    top, span_h = _reach([phase.taps_y for phase in phases])
    left, span_w = _reach([phase.taps_x for phase in phases])
    columns = out_w // window.stride_w
    image_w = columns + span_w - 1
    image = PackedLayout(lane, False, image_w, entry, entry * span_w, entry, span_h, op.stage.leaky is not None)
    return TransposedLayout(image, phases, out_h // window.stride_h, columns, top, left)


def _in_order(taps: tuple[Tap, ...]) -> tuple[Tap, ...]:
    """Taps of a phase lie side by side in the input."""
    return tuple(sorted(taps, key=lambda tap: tap.delta))


def _reach(taps: Collection[tuple[Tap, ...]]) -> tuple[int, int]:
    """The taps of one side: how far before an output's own place the first lies, and the places up to the last."""
    deltas = [tap.delta for each in taps for tap in each]
    first = min(0, *deltas)
    return -first, max(0, *deltas) - first + 1


@dataclass(frozen=True, order=True)
class TransposedPackedFunction(Function):
    """All phases of the convolution of an image."""

    lane: CType
    y: CType
    leaky: bool

    @property
    def name(self) -> str:
        return f"conv_transposed_packed_{self.lane.tag}_{self.y.tag}{'_leaky' if self.leaky else ''}"


class PackedConvTranspose2dC(OperatorC[ConvTranspose2d]):
    """`struct nnkit_packed_transposed`: a call for the image, one for all phases, on tiles that a schedule makes."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def functions(self, op: ConvTranspose2d, program: Program) -> tuple[Function, ...]:
        """Image and convolution."""
        image = transposed_layout(op, program).image
        y = ctype(program.tensors[op.output].fixed)
        return (
            ImageFunction(ctype(program.tensors[op.inputs[0]].fixed), image.lane),
            TransposedPackedFunction(image.lane, y, image.leaky),
        )

    def calls(self, op: ConvTranspose2d, program: Program, machine: CoreMachine, name: str) -> tuple[Call, ...]:
        """The calls in order; their layers are those of the whole tensor."""
        image, convolution = self.functions(op, program)
        return (
            Call(image.name, name, (0,), ()),
            Call(convolution.name, name, (0,), (_constant(name, op, program),)),
        )

    def needs(self, op: ConvTranspose2d, program: Program, machine: CoreMachine) -> KernelNeeds:
        """Weight blocks; scratch is the schedule's."""
        blocks = -(-op.weight.shape[1] // LANES)
        block_bytes = transposed_layout(op, program).block_bytes
        return KernelNeeds(
            weight_block_bytes=(block_bytes,) * blocks, min_blocks_per_chunk=blocks, repacks_input=True
        )

    def weight_blocks(self, op: ConvTranspose2d) -> list[bytes]:
        """By block: starts, slopes, then phase by phase the groups of lanes of each channel in turn."""
        layout = transposed_layout(op, self.program)
        groups = [_groups(op.weight.astype(np.int64), layout, phase) for phase in layout.phases]
        return pack_lanes(op, np.concatenate(groups, axis=1), layout.image.lane.bytes)


def _groups(weight: NDArray[np.int64], layout: TransposedLayout, phase: Phase) -> NDArray[np.int64]:
    """[I, O, kh, kw] -> [O, groups of the phase, lanes]."""
    rows, columns = [tap.index for tap in phase.taps_y], [tap.index for tap in phase.taps_x]
    return entries(weight[:, :, rows][:, :, :, columns].transpose(1, 2, 3, 0), layout.image)


def transposed_packed_source(functions: Collection[Function]) -> Source | None:
    """The file with all packed transposed convolutions."""
    variants = sorted({function for function in functions if isinstance(function, TransposedPackedFunction)})
    if not variants:
        return None
    declarations = tuple(
        Declaration(each.name, f"struct nnkit_packed_transposed: packed {each.lane.tag} -> {each.y.tag}")
        for each in variants
    )
    lanes = sorted({each.lane for each in variants})
    return Source(
        "transposed_packed",
        "conv_transpose2d_packed.c.j2",
        {"variants": variants, "lanes": lanes},
        declarations,
    )


def _constant(name: str, op: ConvTranspose2d, program: Program) -> Constant:
    channels, height, width = chw(program.tensors[op.inputs[0]])
    layout, window = transposed_layout(op, program), op.window
    image = layout.image
    columns = layout.phases[: window.stride_w]
    rows = layout.phases[:: window.stride_w]
    return Constant(
        "struct nnkit_packed_transposed",
        name,
        (
            (f"{{{channels}, {height}, {width}", "input channels, height, width"),
            (f"{op.weight.shape[1]}, {layout.rows}, {layout.columns}", "output channels; a phase's height, width"),
            ("1, 1", "stride"),
            (f"{layout.pad_top}, {layout.pad_left}, 0", "padding above, left; its value"),
            (
                f"{image.rows}, {image.row_groups // image.entry_groups}",
                "kernel: rows and columns of all phases",
            ),
            ("1, 1", "dilation"),
            ("0", "an entry is a pixel"),
            (f"{image.image_w}, {image.entry_groups}", "entries of an image row, groups of an entry"),
            (f"{image.row_groups}, {image.pixel_groups}", "groups of a kernel row, from pixel to pixel"),
            (f"{layout.block_bytes}", "bytes of a block"),
            *stage_lines(op.stage, program.tensors[op.output].fixed),
            (f"{layout.rows * layout.columns}", "elements of a phase's output plane"),
            ("1, 1}", "the first and the last slice of the input channels"),
            (f"{window.stride_h}, {window.stride_w}", "from one output of a phase to the next"),
            (_four([len(phase.taps_y) for phase in rows]), "by the phase's row: kernel rows"),
            (_four([phase.taps_y[0].delta + layout.pad_top for phase in rows]), "their first in the image"),
            (_four([len(phase.taps_x) for phase in columns]), "by the phase's column: kernel columns"),
            (_four([phase.taps_x[0].delta + layout.pad_left for phase in columns]), "their first in the image"),
        ),
    )


def _four(values: list[int]) -> str:
    return "{" + ", ".join(map(str, [*values, *[0] * (MOST_STRIDE - len(values))])) + "}"

"""Transposed convolution: rows are gathered, one output phase at a time, so that no tap multiplies a zero.

A tap ky reaches output row oy = iy*stride - pad + ky*dilation, so only rows with
oy mod stride == (ky*dilation - pad) mod stride. Rows of one phase therefore use the same taps; likewise columns.
Every tap belongs to exactly one phase, so weights sorted by phase need no more room than unsorted.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.c.fixed.convolution import (
    ConvFunction,
    ConvKernel,
    Geometry,
    conv_call,
    conv_declarations,
    conv_needs,
    conv_uses,
    conv_variant,
    gathering_scratch,
    parts_with_scratch,
)
from nnkit.c.fixed.layer import Call, Constant
from nnkit.c.fixed.machine import CoreMachine
from nnkit.c.fixed.operator import Function, OperatorC, Source
from nnkit.c.fixed.types import chw
from nnkit.c.fixed.weight_blocks import pack, wide_starts
from nnkit.memory.needs import KernelNeeds
from nnkit.program import ConvTranspose2d, Program, Window


class ConvTranspose2dC(OperatorC[ConvTranspose2d]):
    """`struct nnkit_conv` with phases."""

    def functions(self, op: ConvTranspose2d, program: Program) -> tuple[Function, ...]:
        return (_function(op, program),)

    def calls(self, op: ConvTranspose2d, program: Program, machine: CoreMachine, name: str) -> tuple[Call, ...]:
        kernel = conv_transpose2d_kernel(op, program, machine)
        phases = _phases_constant(op.window, f"{name}_phases[]")
        return (conv_call(op, program, kernel, _function(op, program), name, phases=phases),)

    def needs(self, op: ConvTranspose2d, program: Program, machine: CoreMachine) -> KernelNeeds:
        """Scratch for gathered pixels."""
        return conv_needs(op, conv_transpose2d_kernel(op, program, machine), machine)

    def weight_blocks(self, op: ConvTranspose2d) -> list[bytes]:
        """Taps by output phase, and inside a phase input channel, kernel row, kernel column."""
        return pack(op, _channels(op), int(op.weight.shape[1]), wide_starts(op))


@dataclass(frozen=True)
class Tap:
    """One kernel index along an axis, and `delta` with i = (o - phase) / stride + delta for output index o."""

    index: int
    delta: int


@dataclass(frozen=True)
class Phase:
    """Outputs with oy mod stride_h == y and ox mod stride_w == x, and the taps that reach them."""

    y: int
    x: int
    taps_y: tuple[Tap, ...]
    taps_x: tuple[Tap, ...]


def output_phases(window: Window) -> tuple[Phase, ...]:
    """All stride_h * stride_w phases, row by row; a phase no tap reaches has empty tuples (its outputs are bias)."""
    return tuple(
        Phase(
            y,
            x,
            _axis_taps(window.kernel_h, window.stride_h, window.dilation_h, window.pad_top, y),
            _axis_taps(window.kernel_w, window.stride_w, window.dilation_w, window.pad_left, x),
        )
        for y in range(window.stride_h)
        for x in range(window.stride_w)
    )


def conv_transpose2d_kernel(op: ConvTranspose2d, program: Program, machine: CoreMachine) -> ConvKernel:
    """How a ConvTranspose2d runs on a machine; where scratch does not hold even one part, the planner reports it."""
    x, y = program.tensors[op.inputs[0]], program.tensors[op.output]
    channels, in_h, in_w = chw(x)
    _, out_h, out_w = chw(y)
    in_per_group = channels // op.groups
    geometry = Geometry(op.groups, in_per_group, in_h, in_w, int(op.weight.shape[1]), out_h, out_w)
    deepest = max(len(phase.taps_y) * len(phase.taps_x) for phase in output_phases(op.window)) * in_per_group
    tile, row_bytes = gathering_scratch(deepest, x.format.bytes, machine)
    parts = parts_with_scratch(row_bytes, machine)
    return ConvKernel(
        path="transposed",
        geometry=geometry,
        blocks=geometry.blocks,
        taps=in_per_group * int(op.weight.shape[2] * op.weight.shape[3]),
        max_parts=parts,
        split_blocks=out_h < parts,
        tile_pixels=tile,
        row_bytes=row_bytes,
    )


def transposed_source(functions: Collection[Function]) -> Source | None:
    """The file with all transposed kernels."""
    uses = conv_uses(functions, ("transposed",))
    values = {"variants": uses}
    return Source("conv_transposed", "conv_transpose2d.c.j2", values, conv_declarations(uses)) if uses else None


def _axis_taps(kernel: int, stride: int, dilation: int, pad: int, phase: int) -> tuple[Tap, ...]:
    """Taps that reach outputs of `phase` along one axis."""
    taps = []
    for index in range(kernel):
        offset = index * dilation - pad  # o = i * stride + offset
        if offset % stride == phase:
            taps.append(Tap(index, (phase - offset) // stride))
    return tuple(taps)


def _function(op: ConvTranspose2d, program: Program) -> ConvFunction:
    return ConvFunction(conv_variant(op, program, "transposed"), op.window)


def _phases_constant(window: Window, name: str) -> Constant:
    """Per output phase: counts of kernel rows and columns, then their offsets into the input."""
    lines = []
    for phase in output_phases(window):
        rows = [str(tap.delta) for tap in phase.taps_y]
        columns = [str(tap.delta) for tap in phase.taps_x]
        values = [str(len(rows)), str(len(columns)), *rows, *columns]
        lines.append((", ".join(values), f"phase ({phase.y}, {phase.x})"))
    return Constant("nnkit_i32", name, tuple(lines))


def _channels(op: ConvTranspose2d) -> list[NDArray[Any]]:
    """Flat taps of every output channel, sorted by output phase."""
    in_per_group = op.weight.shape[0] // op.groups
    phases = output_phases(op.window)
    channels = []
    for group in range(op.groups):
        planes = op.weight[group * in_per_group : (group + 1) * in_per_group]  # [I/groups, O/groups, kh, kw]
        for o in range(op.weight.shape[1]):
            parts = [
                planes[:, o][:, [tap.index for tap in phase.taps_y]][:, :, [tap.index for tap in phase.taps_x]]
                for phase in phases
            ]
            channels.append(np.concatenate([part.reshape(-1) for part in parts]))
    return channels

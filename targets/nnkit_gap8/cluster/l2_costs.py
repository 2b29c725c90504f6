"""What layers cost that run on L2 without tiles, in cycles of the cluster.

Every access to L2 takes about 15 cycles, more where all cores want it. Transposed convolutions were measured in 16
simulated layers: four shapes (kernels of 2x2 to 4x4, strides 1 and 2), 16 and 8 bits, one core and eight; fully
connected ones in two, of 64 and 1,280 inputs; moves of affine integers in 19, of 32 to 2,048 elements.
"""

from __future__ import annotations

from math import prod

from nnkit.c.fixed.conv_transpose2d import conv_transpose2d_kernel, output_phases
from nnkit.c.fixed.machine import CoreMachine
from nnkit.c.fixed.types import chw
from nnkit.memory.plan import MemoryPlan
from nnkit.program import Concat, Conv2d, ConvTranspose2d, OpBase, Program, Reshape, macs
from nnkit.program.affine import AffineConv, AffineMove
from nnkit_gap8.cluster import costs
from nnkit_gap8.steps import address

_OTHER = 20.0  # an output element, or a multiply-accumulate, on one core
_PRODUCT, _LAYER = 29.7, 2070.0  # of a fully connected layer: a multiply-accumulate on one core; the call
_MOVED, _MOVE = 37.0, 700.0  # of affine integers that change places: an element on one core; the call
_COPIED = 35.0  # an element of a concatenation, read from L2 and written there
_GATHERED = 34.0  # a tap of one output pixel of a transposed convolution, from L2 to L1
_TAP = 108.0  # of 4 output channels by 4 pixels, weights in L2
_TILE = 1600.0  # 4 output channels by 4 pixels, or by 1 at a row's end: starts, outputs, parameters


def cycles_on_l2(op: OpBase, program: Program, cores: int, share: float) -> float:
    """The slowest core's work on a step of `op`, for so large a share of its output channels."""
    output = program.tensors[op.output]
    if isinstance(op, AffineMove):
        return _MOVE + output.elements * _MOVED * share
    work = max(macs(op, program), 0 if isinstance(op, Reshape | Concat) else output.elements)
    if isinstance(op, AffineConv) and op.transposed:  # inserted zeros are multiplied
        work = work * prod(output.shape[1:]) // prod(program.tensors[op.inputs[0]].shape[1:])
    return work * _OTHER * share / _busy_cores(op, program, cores)


def fixed_cycles_on_l2(op: OpBase, program: Program, plan: MemoryPlan, machine: CoreMachine, share: float) -> float:
    """As `cycles_on_l2`, where the kernels are those of fixed point."""
    if isinstance(op, ConvTranspose2d):
        return _transposed_cycles(op, program, machine) * share
    if isinstance(op, Conv2d) and program.tensors[op.output].elements == program.tensors[op.output].shape[0]:
        return _LAYER + macs(op, program) * _PRODUCT * share / _busy_cores(op, program, machine.cores)
    if isinstance(op, Concat):
        return _copied_elements(op, program, plan) * _COPIED / machine.cores
    return cycles_on_l2(op, program, machine.cores, share)


def _busy_cores(op: OpBase, program: Program, cores: int) -> int:
    """Cores that have work: of one output pixel, parts divide the blocks of channels."""
    output = program.tensors[op.output]
    if output.elements == output.channels:
        return min(cores, costs.ceil_div(output.elements, 4))
    return cores


def _copied_elements(op: Concat, program: Program, plan: MemoryPlan) -> int:
    """Elements of the parts that are not in place already."""
    copied, at = 0, address(plan, op.output)
    for name in op.inputs:
        tensor = program.tensors[name]
        if address(plan, name) != at:
            copied += tensor.elements
        at += tensor.size_bytes
    return copied


def _transposed_cycles(op: ConvTranspose2d, program: Program, machine: CoreMachine) -> float:
    channels, _, _ = chw(program.tensors[op.inputs[0]])
    _, out_h, out_w = chw(program.tensors[op.output])
    kernel = conv_transpose2d_kernel(op, program, machine)
    total = 0.0
    for phase in output_phases(op.window):
        rows = len(range(phase.y, out_h, op.window.stride_h))
        columns = len(range(phase.x, out_w, op.window.stride_w))
        taps = len(phase.taps_y) * len(phase.taps_x) * (channels // op.groups)
        tiles = columns // 4 + columns % 4 if kernel.tile_pixels == 4 else columns
        gathered = columns * op.groups * taps * _GATHERED
        total += rows * (gathered + tiles * kernel.blocks * (taps * _TAP + _TILE))
    units = kernel.blocks if kernel.split_blocks else out_h
    return total * costs.ceil_div(units, min(machine.cores, kernel.max_parts)) / units

"""What the gap8 kernels take. Each docstring is the message, the reason and the line in the docs."""

from __future__ import annotations

from types import MappingProxyType

from nnkit.constraints import Constraint, Limits
from nnkit.program import Conv2d, Convolution, OpBase, Pool, Program

LIMITS: Limits = MappingProxyType(
    {
        "max_kernel": 31,
        "max_stride": 16,
        "max_dilation": 16,
        "max_side": 4096,
        "max_channels": 16384,
        "max_tensor_values": 1 << 24,
        "max_shift": 31,
    }
)


def window_is_small(op: OpBase, program: Program, limits: Limits) -> bool:
    """kernel sides are at most {max_kernel}, or cover the whole input; strides are at most {max_stride} and
    dilations at most {max_dilation}"""
    if not isinstance(op, Convolution | Pool):
        return True
    window, shape = op.window, program.tensors[op.inputs[0]].shape
    whole = (window.kernel_h, window.kernel_w) == tuple(shape[-2:])
    small = max(window.kernel_h, window.kernel_w) <= limits["max_kernel"]
    strides = max(window.stride_h, window.stride_w) <= limits["max_stride"]
    return (whole or small) and strides and max(window.dilation_h, window.dilation_w) <= limits["max_dilation"]


def tensor_is_addressable(op: OpBase, program: Program, limits: Limits) -> bool:
    """tensors have at most {max_channels} channels, sides of at most {max_side} and {max_tensor_values} values"""
    shape = program.tensors[op.output].shape
    sides = shape[1:] if len(shape) > 1 else ()
    return (
        shape[0] <= limits["max_channels"]
        and max(sides, default=1) <= limits["max_side"]
        and program.tensors[op.output].elements <= limits["max_tensor_values"]
    )


def running_output_is_signed(op: OpBase, program: Program, limits: Limits) -> bool:
    """`running` accumulation keeps its sums in a signed tensor"""
    if not isinstance(op, Conv2d) or op.accumulate != "running":
        return True
    return program.tensors[op.output].fixed.signed


CONSTRAINTS: tuple[Constraint, ...] = (window_is_small, tensor_is_addressable, running_output_is_signed)

"""What all kernels take. Each docstring is the message, the remedy and the line in the docs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nnkit.constraints import Limits
from nnkit.program import Convolution, OpBase, Pool, Program, Window


@dataclass(frozen=True)
class KernelLimits(Limits):
    """The numbers in the limits of kernels and tensors. max_side: of height and width."""

    max_kernel: int = 31
    max_stride: int = 16
    max_dilation: int = 64
    max_side: int = 4096
    max_channels: int = 16384
    max_tensor_values: int = 1 << 24


LIMITS = KernelLimits()


def window_is_small(op: OpBase, program: Program, limits: KernelLimits) -> str | None:
    """kernel sides are at most {max_kernel}, or cover the whole input; strides are at most {max_stride} and
    dilations at most {max_dilation}
    fix: use a smaller window; a pooling of a large map can be two poolings"""
    if not isinstance(op, Convolution | Pool):
        return None
    return window_beyond(op.window, program.tensors[op.inputs[0]].shape, limits)


def window_beyond(window: Window, shape: Sequence[int], limits: KernelLimits) -> str | None:
    """What is too large about a window over an input of this shape; None where all is well."""
    kernel = (window.kernel_h, window.kernel_w)
    most = limits.max_kernel if kernel != tuple(shape[-2:]) else max(kernel)
    beyond = [
        f"{name} {sides[0]}x{sides[1]}"
        for name, sides, limit in (
            ("kernel", kernel, most),
            ("stride", (window.stride_h, window.stride_w), limits.max_stride),
            ("dilation", (window.dilation_h, window.dilation_w), limits.max_dilation),
        )
        if max(sides) > limit
    ]
    return ", ".join(beyond) or None


def tensor_is_addressable(op: OpBase, program: Program, limits: KernelLimits) -> str | None:
    """tensors have at most {max_channels} channels, sides of at most {max_side} and {max_tensor_values} values
    fix: make the tensor smaller: strides, fewer channels, or a smaller input"""
    return shape_beyond(program.tensors[op.output].shape, limits)


def shape_beyond(shape: Sequence[int], limits: KernelLimits) -> str | None:
    """The shape, where it is too large; its first side counts channels."""
    small = max(shape[:1], default=1) <= limits.max_channels and max(shape[1:], default=1) <= limits.max_side
    if small and math.prod(shape) <= limits.max_tensor_values:
        return None
    return "x".join(map(str, shape))

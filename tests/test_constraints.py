"""Constraints: one text as message, reason and documentation; every op outside is listed in one error."""

from __future__ import annotations

import pytest
from program_builder import ProgramBuilder

from nnkit.constraints import Limits, check_constraints, constraint_text
from nnkit.errors import ExitCode, ModelError
from nnkit.program import Conv2d, Op, Program

LIMITS = {"max_kernel": 3, "max_values": 1_000}


def kernel_is_small(op: Op, program: Program, limits: Limits) -> bool:
    """kernel sides are at most {max_kernel}, which is what
    the hardware's line buffer holds
    """
    return not isinstance(op, Conv2d) or op.window.kernel_h <= limits["max_kernel"]


def tensor_is_small(op: Op, program: Program, limits: Limits) -> bool:
    """tensors have at most {max_values} values"""
    return program.tensors[op.output].elements <= limits["max_values"]


def test_text_is_one_line_with_the_limits_filled_in() -> None:
    assert constraint_text(kernel_is_small, LIMITS) == (
        "kernel sides are at most 3, which is what the hardware's line buffer holds"
    )
    assert constraint_text(tensor_is_small, LIMITS) == "tensors have at most 1,000 values"


def program(*kernels: int) -> Program:
    net = ProgramBuilder()
    x = net.input(1, 20, 20)
    for kernel in kernels:
        x = net.conv(x, 1, kernel, pad=kernel // 2)
    return net.build(x)


def test_within_the_limits() -> None:
    check_constraints(program(1, 3), (kernel_is_small, tensor_is_small), LIMITS)
    check_constraints(program(9), (), LIMITS)


def test_every_op_outside_is_in_one_message() -> None:
    with pytest.raises(ModelError) as caught:
        check_constraints(program(5, 3, 7), (kernel_is_small,), LIMITS)
    text = constraint_text(kernel_is_small, LIMITS)
    assert caught.value.exit_code == ExitCode.MODEL
    assert caught.value.reason.splitlines() == [
        "2 layers cannot be deployed:",
        f"  conv0 (conv2d): {text}",
        f"  conv2 (conv2d): {text}",
    ]
    assert caught.value.remedy


def test_an_op_outside_two_constraints_is_told_of_both() -> None:
    net = ProgramBuilder()
    big = net.build(net.conv(net.input(1, 40, 40), 1, 5, pad=2))
    with pytest.raises(ModelError) as caught:
        check_constraints(big, (kernel_is_small, tensor_is_small), LIMITS)
    assert [line.partition(": ")[2] for line in caught.value.reason.splitlines()[1:]] == [
        constraint_text(kernel_is_small, LIMITS),
        constraint_text(tensor_is_small, LIMITS),
    ]

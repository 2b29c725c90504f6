"""Constraints: one text as message, remedy and documentation; everything outside is listed in one error."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from program_builder import ProgramBuilder

from nnkit.constraints import (
    Limits,
    Violation,
    check_constraints,
    constraint_remedy,
    constraint_text,
    violation,
    violations_error,
)
from nnkit.errors import ExitCode, ModelError
from nnkit.program import Conv2d, OpBase, Program


@dataclass(frozen=True)
class SmallLimits(Limits):
    max_kernel: int = 3
    max_values: int = 1_000
    epsilon: float = 1e-10
    powers: tuple[float, ...] = (-0.5, 2.0)


LIMITS = SmallLimits()


def kernel_is_small(op: OpBase, program: Program, limits: SmallLimits) -> str | None:
    """kernel sides are at most {max_kernel}, which is what
    the hardware's line buffer holds
    fix: use several convolutions of
    at most {max_kernel}
    """
    if not isinstance(op, Conv2d) or op.window.kernel_h <= limits.max_kernel:
        return None
    return f"a side of {op.window.kernel_h}"


def tensor_is_small(op: OpBase, program: Program, limits: SmallLimits) -> str | None:
    """tensors have at most {max_values} values"""
    elements = program.tensors[op.output].elements
    return f"{elements:,}" if elements > limits.max_values else None


def check(program: Program, *constraints: object) -> None:
    check_constraints(program, constraints, LIMITS, whose="the small one", documentation="docs/small.md")  # type: ignore[arg-type]


def test_texts_are_one_line_with_the_limits_filled_in() -> None:
    assert constraint_text(kernel_is_small, LIMITS) == (
        "kernel sides are at most 3, which is what the hardware's line buffer holds"
    )
    assert constraint_remedy(kernel_is_small, LIMITS) == "use several convolutions of at most 3"
    assert constraint_text(tensor_is_small, LIMITS) == "tensors have at most 1,000 values"
    assert constraint_remedy(tensor_is_small, LIMITS) == ""
    assert LIMITS.texts == {"max_kernel": "3", "max_values": "1,000", "epsilon": "1e-10", "powers": "-1/2, 2"}


def program(*kernels: int) -> Program:
    net = ProgramBuilder()
    x = net.input(1, 20, 20)
    for kernel in kernels:
        x = net.conv(x, 1, kernel, pad=kernel // 2)
    return net.build(x)


def test_within_the_limits() -> None:
    check(program(1, 3), kernel_is_small, tensor_is_small)
    check(program(9))


def test_one_op_outside_is_told_with_what_it_has() -> None:
    with pytest.raises(ModelError) as caught:
        check(program(5, 3), kernel_is_small)
    assert caught.value.exit_code == ExitCode.MODEL
    assert caught.value.reason.splitlines() == [
        "1 limit of the small one is exceeded:",
        f"  conv0 (conv2d): {constraint_text(kernel_is_small, LIMITS)}; found a side of 5",
        "    fix: use several convolutions of at most 3",
    ]
    assert caught.value.remedy == "change the network or the options as said (docs/small.md has all limits)"


def test_every_op_outside_is_in_one_message_and_what_they_share_is_said_once() -> None:
    with pytest.raises(ModelError) as caught:
        check(program(5, 3, 7), kernel_is_small)
    assert caught.value.reason.splitlines() == [
        "2 limits of the small one are exceeded:",
        "  conv0 (conv2d; found a side of 5), conv2 (conv2d; found a side of 7):",
        f"    {constraint_text(kernel_is_small, LIMITS)}",
        "    fix: use several convolutions of at most 3",
    ]
    with pytest.raises(ModelError) as caught:
        check(program(5, 3, 5), kernel_is_small)
    assert caught.value.reason.splitlines()[1:3] == [
        "  conv0 (conv2d), conv2 (conv2d):",
        f"    {constraint_text(kernel_is_small, LIMITS)}; found a side of 5",
    ]


def test_what_repeats_along_the_network_is_said_once_with_a_count() -> None:
    """As in ShuffleNet: thirteen channel shuffles."""
    kinds = ("Reshape", "Permute", "Reshape")
    broken = [
        Violation(f"{kind}{block}_{at}", kind, "the batch stays", "", f"a batch of {block + at}")
        for block in range(13)
        for at, kind in enumerate(kinds)
    ]
    assert violations_error([*broken, Violation("last", "Slice", "the batch stays", "")], "no", "").reason == (
        "no:\n  13 times, the first: Reshape0_0 (Reshape; found a batch of 0), "
        "Permute0_1 (Permute; found a batch of 1),\n  Reshape0_2 (Reshape; found a batch of 2), last (Slice):\n"
        "    the batch stays"
    )


def test_an_op_outside_two_constraints_is_told_of_both() -> None:
    net = ProgramBuilder()
    big = net.build(net.conv(net.input(1, 40, 40), 1, 5, pad=2))
    with pytest.raises(ModelError) as caught:
        check(big, kernel_is_small, tensor_is_small)
    assert [line for line in caught.value.reason.splitlines()[1:] if "fix:" not in line] == [
        f"  conv0 (conv2d): {constraint_text(kernel_is_small, LIMITS)}; found a side of 5",
        f"  conv0 (conv2d): {constraint_text(tensor_is_small, LIMITS)}; found 1,600",
    ]


def test_what_is_limited_need_not_be_an_op() -> None:
    def segments_are_few(segments: int) -> str | None:
        """a network has at most {max_kernel} segments"""
        return f"{segments}" if segments > LIMITS.max_kernel else None

    assert segments_are_few(3) is None
    broken = violation(segments_are_few, segments_are_few(4) or "", "the network", "", LIMITS)
    assert broken == Violation("the network", "", "a network has at most 3 segments", "", "4")
    assert violations_error([broken], "too much", "less").reason == (
        "too much:\n  the network: a network has at most 3 segments; found 4"
    )

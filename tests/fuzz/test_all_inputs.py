"""A kernel of each arithmetic on every input, and that a wrong kernel is seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from fuzz.all_inputs import __main__ as command
from fuzz.all_inputs import affine, fixed
from fuzz.all_inputs.case import Case
from nnkit.c.host_compiler import host_compiler

if host_compiler() is None:
    pytest.skip("needs a C compiler", allow_module_level=True)


def one(cases: Callable[[], Iterable[Case]], name: str) -> Case:
    return next(case for case in cases() if case.name.startswith(name))


@pytest.mark.parametrize(
    ("cases", "name", "file", "right", "wrong"),
    [
        (fixed.cases, "add to s8.5, -128 to 77", "net_elementwise.c", "(nnkit_u32)layer->rounding", "0u"),
        (affine.cases, "average pool of two to s8", "net_kernels.c", "-taps * p->x_zero", "1 - taps * p->x_zero"),
    ],
)
def test_a_kernel_gives_what_its_operator_means_for_every_input_and_a_wrong_one_does_not(
    cases: Callable[[], Iterable[Case]], name: str, file: str, right: str, wrong: str, tmp_path: Path
) -> None:
    case = one(cases, name)
    assert case.inputs == 65536
    artifact = command.emitted(case, tmp_path)
    assert command.differing(case, artifact) == []
    kernels = artifact / file
    text = kernels.read_text()
    assert right in text
    kernels.write_text(text.replace(right, wrong))
    assert command.differing(case, artifact)

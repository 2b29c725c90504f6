"""Concatenations, upsampling, padding, reshapes, transposes and slices against plain loops."""

from __future__ import annotations

from pathlib import Path

from nnkit.c.fixed.catalogue import operator_c
from nnkit.c.fixed.machine import CoreMachine
from tests.c.fixed.kernel_check import check_ops, needs_gcc
from tests.c.fixed.random_ops import TYPES, Random


@needs_gcc
def test_all_types(tmp_path: Path) -> None:
    r = Random(11)
    for fixed in TYPES:
        r.moves(fixed)
    check_ops(r, tmp_path)


@needs_gcc
def test_axes_in_another_order_and_parts(tmp_path: Path) -> None:
    r = Random(13)
    for fixed in TYPES:
        for order in ((1, 0), (2, 0, 1), (0, 2, 1), (1, 0, 2, 3), (3, 1, 2, 0), (0, 1, 2)):
            r.transpose(fixed, order)
        every = slice(None)
        r.slice(fixed, (9,), slice(7, 1, -3))
        r.slice(fixed, (6, 4, 5), slice(2, 5), every, every)
        r.slice(fixed, (6, 4, 5), every, slice(1, 3), slice(4, None, -2))
        r.slice(fixed, (3, 4, 2, 5), slice(None, None, -1), slice(1, 4), every, slice(0, 5, 2))
    check_ops(r, tmp_path)


@needs_gcc
def test_stripes_of_rows_become_one(tmp_path: Path) -> None:
    r = Random(17)
    for fixed in TYPES:
        r.join_rows(fixed, 3, 5, 1, 4, 2)
        r.join_rows(fixed, 9, 2, 3, 3)
    check_ops(r, tmp_path)


def test_axes_that_are_walked_as_one_are_one() -> None:
    """Channels 2 and 3 of [6, 4, 5] are two runs of 20 elements, in order."""
    r = Random(1)
    r.slice(TYPES[0], (6, 4, 5), slice(2, 4), slice(None), slice(None))
    program = r.program()
    (op,) = program.ops
    ((constant,),) = [call.constants for call in operator_c(op).calls(op, program, CoreMachine(8, 1 << 16), "layer")]
    assert [values for values, _ in constant.lines] == ["{2, 1, 1, 20}", "{20, 0, 0, 1}", "40"]

"""Pooling against plain loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnkit.program import Fixed, Pool, Window
from nnkit_gap8.runners import HostRunner
from tests.c.fixed import plain_reference
from tests.c.fixed.kernel_check import SANITIZE, check_ops, needs_gcc, write
from tests.c.fixed.programs import S8, S16, U8, U16
from tests.c.fixed.random_ops import TYPES, Random


@needs_gcc
def test_all_types_and_kinds(tmp_path: Path) -> None:
    r = Random(5)
    for fixed in TYPES:
        r.pool(fixed, "max")
        r.pool(fixed, "max", narrow=True)
        r.pool(fixed, "average")
        r.pool(fixed, "average", by_count=True)
        r.pool(fixed, "average", narrow=True)
    check_ops(r, tmp_path)


@needs_gcc
@pytest.mark.parametrize("fixed", [S8, U8, S16, U16], ids=str)
def test_a_global_average_that_needs_a_64_bit_sum(fixed: Fixed, tmp_path: Path) -> None:
    """The sum of 65536 taps of 16 bits does not fit 32 bits."""
    r = Random(14)
    name = r.fresh((1, 256, 264), fixed)
    window = Window(256, 264)
    output = r.builder.tensor(r.output(), (1, 1, 1), fixed)
    r.builder.ops.append(
        Pool(
            name="gap",
            inputs=(name,),
            output=output,
            pool="average",
            window=window,
            multiplier=(1 << 30) // (256 * 264),
            shift=30,
            clip_min=fixed.qmin,
            clip_max=fixed.qmax,
        )
    )
    program = r.program()
    folder = write(program, tmp_path)
    values = np.full((1, 256, 264), fixed.qmax)
    result = HostRunner("gcc", SANITIZE).run(folder, program, [{name: values}], trace=False)[0]
    expected = plain_reference.norm(fixed.qmax * 256 * 264 * ((1 << 30) // (256 * 264)), 30)
    assert result.outputs[output].item() == expected

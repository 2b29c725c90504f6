"""What concerns all kernels: weights in chunks, numbers of parts, little scratch; and that every op has its files."""

from __future__ import annotations

from pathlib import Path

import pytest

import nnkit.c.fixed
import nnkit.program.fixed
from nnkit.c.fixed.catalogue import operator_c
from nnkit.c.fixed.machine import CoreMachine
from nnkit.errors import InternalError, ToolError
from nnkit.program import OpBase, Window
from nnkit_gap8.emit import emit_artifact
from tests.c.fixed.kernel_check import check, needs_gcc, write
from tests.c.fixed.programs import S8, S16, U8
from tests.c.fixed.random_ops import Random, everything
from tests.gap8.plans import naive_plan


def test_every_op_of_the_arithmetic_has_its_definition_and_its_c_under_its_name() -> None:
    """A reader finds both by the name of the op's kind."""
    for op in everything(1).ops:
        assert type(operator_c(op)).__module__ == f"{nnkit.c.fixed.__name__}.{op.kind}"
    for cls in nnkit.program.fixed.Op.__args__:
        assert cls.__module__ == f"{nnkit.program.fixed.__name__}.{cls.kind}"
        assert type(operator_c(object.__new__(cls))).__module__ == f"{nnkit.c.fixed.__name__}.{cls.kind}"


def test_an_op_without_c_is_refused_by_name() -> None:
    op = OpBase(name="strange", inputs=("x",), output="y")
    object.__setattr__(op, "kind", "strange")
    with pytest.raises(InternalError, match="no kernel for strange"):
        operator_c(op)


@needs_gcc
@pytest.mark.parametrize("blocks", [1, 2])
def test_weights_in_chunks(blocks: int, tmp_path: Path) -> None:
    r = Random(blocks)
    for _ in range(2):
        r.conv(S16, S16)
        r.pointwise(S16, S16)
        r.grouped(S16, S16)
        r.depthwise(S16, S16)
        r.transposed(S16, S16)
        r.fused(S16, S16, "max")
    r.log_softmax(S16, S16, (7, 10), 1, 11)
    r.log_softmax(U8, S8, (4, 300), 1, 4)
    r.embedding(S16, 700, 6, 40)
    r.embedding(S8, 9, 3, 11)
    program = r.program()
    check(program, write(program, tmp_path, blocks_per_chunk=blocks))


@needs_gcc
def test_every_number_of_parts(tmp_path: Path) -> None:
    r = Random(11)
    r.conv(S16, S16)
    r.pointwise(S16, S16)
    r.depthwise(S16, S16)
    r.transposed(S16, S16)
    r.fused(S16, S16, "max")
    r.pool(S16, "average")
    r.elementwise("add", S16, S16, S16)
    program = r.program()
    check(program, write(program, tmp_path), parts=(1, 2, 3, 4, 5, 6, 7, 8))


@needs_gcc
def test_scratch_for_fewer_cores_limits_the_parts(tmp_path: Path) -> None:
    """The plan has scratch for two parts: a program that is asked for more refuses."""
    r = Random(12)
    r.conv(S16, S16)
    r.fused(S16, S16, "max")
    program = r.program()
    folder = write(program, tmp_path, cores=2)
    check(program, folder, parts=(1, 2))
    with pytest.raises(ToolError, match="parts must be 1 to 2"):
        check(program, folder, parts=(8,))


@needs_gcc
def test_single_pixels_and_narrow_bands_where_l1_is_small(tmp_path: Path) -> None:
    """1000 bytes hold neither four gathered pixels of 216 taps nor a whole depthwise plane."""
    r = Random(13)
    r._conv(r.fresh((24, 5, 6), S16), S16, Window(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), 6)
    for window in (Window(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), Window(3, 3, 2, 2, 1, 1, 1, 0, 0, 1)):
        r._conv(r.fresh((5, 23, 14), S16), S16, window, 5, groups=5)
    program = r.program()
    plan = naive_plan(program, 2, l1_bytes=1000)
    assert plan.regions["l1"].peak_bytes <= 1000
    for path, content in emit_artifact(program, plan, CoreMachine(2, 1000)).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    check(program, tmp_path, parts=(1, 2))

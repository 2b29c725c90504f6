"""Reordered programs compute the same values and need less L2; a recipe's search budget reaches the allocator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from random_affine_ops import RandomOps
from random_programs import random_programs

from nnkit.errors import RecipeError, ToolError
from nnkit.memory.engine import Effort
from nnkit.memory.plan import MemoryPlan
from nnkit.program import Add, Fixed, OutputStage, Pool, Program, Tensor, Upsample, Window
from nnkit.program.affine import AffineMove, AffinePool
from nnkit.program.formats import Affine
from nnkit.recipe.memory_search import MemorySearch
from nnkit.simulate import simulate
from nnkit_gap8.affine.scheme import check_options
from nnkit_gap8.affine.scheme import planned as affine_planned
from nnkit_gap8.checked_plan import checked_plan
from nnkit_gap8.op_order import with_least_peak
from nnkit_gap8.options import Gap8Options

S16 = Fixed(16, 0)


def breadth_first() -> Program:
    """Two branches that widen and shrink, written side by side as an exporter may."""
    tensors = {name: Tensor(name, (4, side, side), S16, -32768, 32767) for name, side in
               {"x": 4, "a": 32, "b": 32, "c": 4, "d": 4, "y": 4}.items()}  # fmt: skip
    window = Window(8, 8, stride_h=8, stride_w=8)
    ops = (
        Upsample(name="wide1", inputs=("x",), output="a", scale_h=8, scale_w=8),
        Upsample(name="wide2", inputs=("x",), output="b", scale_h=8, scale_w=8),
        Pool(name="thin1", inputs=("a",), output="c", pool="max", window=window, clip_min=-32768, clip_max=32767),
        Pool(name="thin2", inputs=("b",), output="d", pool="max", window=window, clip_min=0, clip_max=32767),
        Add(name="join", inputs=("c", "d"), output="y", shifts=(0, 0), stage=OutputStage(1, -32768, 32767)),
    )
    return Program("net", tensors, ops, ("x",), ("y",))


def planned(program: Program) -> MemoryPlan:
    return checked_plan(program, Gap8Options())


def test_branches_are_run_one_after_the_other() -> None:
    program = breadth_first()
    better = with_least_peak(program, planned)
    assert [op.name for op in better.ops].index("thin1") < [op.name for op in better.ops].index("wide2")
    wide = 4 * 32 * 32 * 2
    saved = planned(program).regions["l2"].peak_bytes - planned(better).regions["l2"].peak_bytes
    # Two wide values and x before; one wide value, x and one thin one afterwards.
    assert saved == wide - 4 * 4 * 4 * 2
    assert "another order" in better.notes[-1]


def test_branches_of_the_affine_scheme_too() -> None:
    """Two branches that widen and shrink: one wide value is there at a time, and every value is the same."""
    draw = RandomOps(1)
    form = Affine(8, (0.1,), (3,), signed=True)
    x = draw._named((4, 4, 4), form)
    draw.inputs.append(x.name)
    wide = [draw._named((4, 32, 32), form) for _ in range(2)]
    thin = [draw._named((4, 4, 4), form) for _ in range(2)]
    window = Window(8, 8, stride_h=8, stride_w=8)
    for output in wide:
        draw.ops.append(AffineMove(**draw._fields((x,), output), move="upsample", scale_hw=(8, 8)))
    for source, output in zip(wide, thin, strict=True):
        draw.ops.append(AffinePool(**draw._fields((source,), output), pool="max", window=window))
    program = replace(draw.program("net"), outputs=tuple(each.name for each in thin))
    options = Gap8Options(scheme="affine")
    better = with_least_peak(program, lambda candidate: affine_planned(candidate, options).plan)
    saved = [affine_planned(each, options).plan.regions["l2"].peak_bytes for each in (program, better)]
    assert saved[0] - saved[1] == 4 * 32 * 32 - 4 * 4 * 4  # a wide value less, a thin one more
    values = {x.name: np.random.default_rng(1).integers(-128, 128, (4, 4, 4))}
    before, after = simulate(program, values), simulate(better, values)
    assert all(np.array_equal(before[name], after[name]) for name in program.outputs)


@pytest.mark.parametrize(("option", "value"), [("repack_limit", 0.5), ("cores", 3), ("steps", "table")])
def test_the_affine_scheme_refuses_what_has_no_effect_there(option: str, value: object) -> None:
    check_options(Gap8Options(scheme="affine", cores=1))
    with pytest.raises(RecipeError, match=f"`{option}"):
        check_options(Gap8Options.model_validate({"scheme": "affine", option: value}))


def test_every_value_stays_what_it_was() -> None:
    program = breadth_first()
    better = with_least_peak(program, planned)
    x = np.random.default_rng(1).integers(-32768, 32768, (4, 4, 4))
    before, after = simulate(program, {"x": x}), simulate(better, {"x": x})
    for name in program.tensors:
        np.testing.assert_array_equal(before[name], after[name])


@settings(max_examples=30)
@given(random_programs())
def test_random_programs_never_get_worse(program: Program) -> None:
    better = with_least_peak(program, planned)
    assert sorted(op.name for op in better.ops) == sorted(op.name for op in program.ops)
    assert planned(better).regions["l2"].peak_bytes <= planned(program).regions["l2"].peak_bytes


def test_the_recipe_s_budget_becomes_an_effort() -> None:
    assert Gap8Options().memory_search.effort() == Effort()
    assert MemorySearch(steps=0).effort() == Effort(climb_steps=0, search_nodes=0)


def test_solvers_that_are_not_installed_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnkit.memory.race.is_installed", lambda: False)
    with pytest.raises(ToolError, match="not installed"):
        MemorySearch(solver=True).effort()

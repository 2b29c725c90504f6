"""A plan that contradicts itself is refused, whoever's plugin made it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import create_autospec

import pytest
from program_builder import ProgramBuilder
from small_project import make_build, write_project

from nnkit import stages
from nnkit.errors import InternalError, ToolError
from nnkit.memory.claims import check_claims
from nnkit.memory.plan import Buffer, MemoryPlan, RegionUse, TensorPlace, nothing_placed
from nnkit.stages import Settled
from nnkit_gap8.target import Gap8Target

_NET = ProgramBuilder()
PROGRAM = _NET.build(_NET.pool(_NET.input(4, 8, 8, name="image"), 8, 8, name="pool"))
IN, OUT = PROGRAM.tensors["image"].size_bytes, PROGRAM.tensors[PROGRAM.outputs[0]].size_bytes
PLAN = MemoryPlan(
    "by hand",
    {"ram": RegionUse(1024, IN + OUT, IN + OUT, True)},
    {"a": Buffer("a", "activation", "ram", 0, IN, 0, 0), "b": Buffer("b", "activation", "ram", IN, OUT, 0, 0)},
    {"image": TensorPlace("image", "a", 0, IN), PROGRAM.outputs[0]: TensorPlace(PROGRAM.outputs[0], "b", 0, OUT)},
    (),
    (),
    0,
)


def test_a_sound_plan_and_an_empty_one_pass() -> None:
    check_claims(PROGRAM, PLAN)
    check_claims(PROGRAM, nothing_placed("somebody else"))


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (replace(PLAN, buffers={}, places={}, regions={"ram": RegionUse(1024, 0, 0, True)}), "it has no place"),
        (replace(PLAN, regions={"ram": RegionUse(1024, 0, 0, True)}), "the buffers end at"),
        (replace(PLAN, places={**PLAN.places, "image": TensorPlace("image", "a", 0, 2)}), "it has 2 bytes of"),
        (replace(PLAN, places={**PLAN.places, "image": TensorPlace("image", "b", 0, IN)}), "does not lie in its"),
        (replace(PLAN, buffers={**PLAN.buffers, "b": replace(PLAN.buffers["b"], offset_bytes=1020)}), "beyond ram"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(plan: MemoryPlan, reason: str) -> None:
    with pytest.raises(InternalError, match=reason):
        check_claims(PROGRAM, plan)


class _Forgetful(Gap8Target):
    def plan(self, *_: object) -> MemoryPlan:  # type: ignore[override]
        return MemoryPlan("by heart", {"l2": RegionUse(65536, 0, 0, True)}, {}, {}, (), (), 0)


def test_the_build_names_the_plugin_and_not_nnkit(tmp_path: Path) -> None:
    build = replace(make_build(write_project(tmp_path)), target=_Forgetful())
    with pytest.raises(ToolError, match=r"'gap8' made .* that cannot be: image: .* it has no place") as told:
        stages.plan(build, create_autospec(Settled, instance=True, lowered=None), None, PROGRAM)
    assert "plugin" in told.value.remedy

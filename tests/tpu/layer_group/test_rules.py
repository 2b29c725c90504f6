"""What the vendor's compiler can cut on the cv18xx, by hand-worked groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nnkit_tpu.chips import chip_named
from nnkit_tpu.layer_group.cost import CostModel
from nnkit_tpu.layer_group.groups import plan_groups
from nnkit_tpu.layer_group.model import GroupGraph
from nnkit_tpu.layer_group.plan import plan_with_count
from nnkit_tpu.layer_group.rules import FREE, UNEQUAL, compiler_rules, unequal_parts, whole_plan_rules
from nnkit_tpu.layer_group.slices import Refusal, SliceCount, SlicePlan, slice_group

CHIP = chip_named("cv181x")


def refused(graph: GroupGraph, slices: int) -> str:
    """Where the rule refuses the whole graph as one group of so many slices along h."""
    plan = slice_group(graph, graph.ops, SliceCount(1, slices))
    assert isinstance(plan, SlicePlan)
    refusal = unequal_parts(graph, graph.ops, plan)
    assert refusal is None or refusal.rule == UNEQUAL
    return refusal.where if refusal is not None else ""


def test_a_branch_into_kernels_of_different_heights(builder: Callable[..., Any]) -> None:
    b = builder((1, 8, 32, 16))
    b.conv("squeeze", "x", 8, kernel=1)
    b.conv("left", "squeeze", 8, kernel=1)
    b.conv("right", "squeeze", 8, kernel=3)
    b.add("fire", "concat", "left right", (1, 16, 32, 16))
    graph = b.graph()
    assert refused(graph, 1) == ""
    assert refused(graph, 2) == "squeeze"  # the right branch reads [0, 17), the left one [0, 16)


def test_a_branch_into_equal_kernels(builder: Callable[..., Any]) -> None:
    b = builder((1, 8, 32, 16))
    b.conv("left", "x", 8)
    b.conv("right", "x", 8)
    b.add("sum", "binary", "left right", (1, 8, 32, 16), function="add")
    assert refused(b.graph(), 4) == ""


def test_an_output_that_is_read_with_a_halo(builder: Callable[..., Any]) -> None:
    b = builder((1, 8, 32, 16))
    b.conv("first", "x", 8)
    b.conv("second", "first", 8)
    assert refused(b.graph("second"), 2) == ""
    assert refused(b.graph("first", "second"), 1) == ""
    assert refused(b.graph("first", "second"), 2) == "first"  # [0, 17) is held, [0, 16) stored


def test_outputs_of_different_heights(builder: Callable[..., Any]) -> None:
    b = builder((1, 8, 32, 16))
    b.conv("skip", "x", 8)
    b.pool("down", "skip", 2, 2)
    graph = b.graph("skip", "down")  # every slice of 2 rows below is one of 4 rows above: no halo at all
    assert refused(graph, 1) == ""
    assert refused(graph, 4) == "skip"


def test_images_are_cut_freely(builder: Callable[..., Any]) -> None:
    b = builder((4, 8, 32, 16))
    b.conv("skip", "x", 8)
    b.pool("down", "skip", 2, 2)
    graph = b.graph("skip", "down")
    plan = slice_group(graph, graph.ops, SliceCount(4, 1))
    assert isinstance(plan, SlicePlan)
    assert unequal_parts(graph, graph.ops, plan) is None


def test_plans_for_the_compiler_keep_the_rules_and_our_own_do_not(builder: Callable[..., Any]) -> None:
    b = builder((1, 32, 56, 56))
    b.conv("squeeze", "x", 16, kernel=1)
    b.conv("left", "squeeze", 32, kernel=1)
    b.conv("right", "squeeze", 32, kernel=3)
    b.add("fire", "concat", "left right", (1, 64, 56, 56))
    graph, model = b.graph(), CostModel(CHIP, counts_bytes=True)
    free = plan_groups(graph, model, orders=False)
    kept = plan_groups(graph, model, orders=False, rules=compiler_rules(CHIP))
    assert [len(group.ops) for group in free.groups] == [4]
    assert all(refused_group(graph, group.ops, group.slices.count) is None for group in kept.groups)
    assert kept.cycles > free.cycles


def refused_group(graph: GroupGraph, ops: Any, count: SliceCount) -> Refusal | None:
    plan = slice_group(graph, ops, count)
    assert isinstance(plan, SlicePlan)
    return unequal_parts(graph, ops, plan)


@pytest.mark.parametrize(
    ("chip", "bound"), [("bm1684x", False), ("bm1688", False), ("cv183x", True), ("cv180x", True)]
)
def test_which_chips_are_bound(chip: str, bound: bool) -> None:
    assert (compiler_rules(chip_named(chip)) != FREE) is bound
    assert whole_plan_rules(chip_named(chip)).own_placement


def test_first_loads_and_last_stores_share_the_memory_even_in_one_slice(builder: Callable[..., Any]) -> None:
    """Two convolutions of 64 channels, 8 in a lane of 32 KiB; the weights of the first take 8 * (576 + 16) bytes."""
    b = builder((1, 64, 32, 44))  # 8 * 1408 = 11,264 bytes a lane, each
    b.conv("first", "x", 64)
    b.conv("second", "first", 64)
    graph, model = b.graph(), CostModel(CHIP, counts_bytes=True)
    one = SliceCount(1, 1)
    # On a line x and its weights are gone when "second" is stored: 2 * 11,264 + 2 * 4,736 bytes at most.
    assert not isinstance(plan_with_count(graph, graph.ops, one, model), Refusal)
    # On the compiler's circle x is loaded again beside "first" and "second": 3 * 11,264 bytes.
    found = plan_with_count(graph, graph.ops, one, model, rules=compiler_rules(CHIP))
    assert isinstance(found, Refusal)
    assert found.rule == "compiler's placement"

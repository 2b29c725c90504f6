"""A Program as a graph for the search of orders, and in another order."""

from __future__ import annotations

import pytest
from program_builder import ProgramBuilder

from nnkit.errors import InternalError
from nnkit.memory.program_order import graph_of, reordered
from nnkit.program import Program


def two_branches() -> Program:
    """x -> wide1 -> thin1, x -> wide2 -> thin2, and their sum."""
    net = ProgramBuilder(bits=16)
    x = net.input(2, 4, 4, name="x")
    wide = [net.conv(x, 9, name=f"wide{k}") for k in (1, 2)]
    thin = [net.conv(value, 3, name=f"thin{k}") for k, value in enumerate(wide, start=1)]
    return net.build(net.add(*thin, name="join"))


def test_the_graph_has_the_program_s_bytes() -> None:
    graph = graph_of(two_branches(), {"join": 7})
    assert graph.sizes_bytes["wide1_v"] == 9 * 4 * 4 * 2
    assert graph.ops[-1].scratch_bytes == 7
    assert set(graph.ops[-1].overwrites) == {"thin1_v", "thin2_v"}  # an addition may write where it reads


def test_one_branch_after_the_other() -> None:
    program = two_branches()
    other = reordered(program, (0, 2, 1, 3, 4))
    assert [op.name for op in other.ops] == ["wide1", "thin1", "wide2", "thin2", "join"]
    for field in ("inputs", "outputs", "tensors"):
        assert getattr(other, field) == getattr(program, field)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ((2, 0, 1, 3, 4), "before its inputs"),
        ((0, 1, 2, 4, 3), "before its inputs"),
        ((0, 0, 1, 2, 3), "permutation"),
        ((0, 1, 2, 3), "permutation"),
    ],
)
def test_orders_that_do_not_run_are_refused(order: tuple[int, ...], message: str) -> None:
    with pytest.raises(InternalError, match=message):
        reordered(two_branches(), order)

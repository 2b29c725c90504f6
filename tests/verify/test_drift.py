"""Distances of outputs, and networks drawn within the bounds of their layers, on sums worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from program_builder import ProgramBuilder

from nnkit.program import Program
from nnkit.simulate import simulate
from nnkit.verify.drift import DRAWS, MOST_DRAWS, Distance, LayerBound, distance, drawn

SHAPE = (4, 16, 16)


def by_output(**bounds: float) -> LayerBound:
    return lambda op, inputs, result: bounds[op.output]


def doubled_twice() -> Program:
    """out = 2 (2 x)."""
    net = ProgramBuilder()
    x = net.input(*SHAPE, name="x")
    first = net.add(x, x, name="first")
    return net.build(net.add(first, first, name="out"))


def inputs(value: int = 3) -> dict[str, np.ndarray]:
    return {"x": np.full(SHAPE, value, np.int64)}


def test_what_differs_in_a_layer_is_computed_on() -> None:
    """Moved by -1, 0 or 1, whose mean square is 2/3, and doubled: the root of 8/3, and at most 2."""
    program, given = doubled_twice(), inputs()
    draws = drawn(program, given, simulate(program, given), by_output(first_v=1.0, out_v=0.0))
    assert len(draws) == DRAWS
    for each in draws:
        assert each.root_mean_square == pytest.approx((8 / 3) ** 0.5, rel=0.1)
        assert each.largest == 2.0
    assert draws == drawn(program, given, simulate(program, given), by_output(first_v=1.0, out_v=0.0))


def test_exact_layers_move_nothing_and_formats_end_where_they_end() -> None:
    program = doubled_twice()
    given = inputs()
    expected = simulate(program, given)
    assert set(drawn(program, given, expected, by_output(first_v=0.0, out_v=0.0))) == {Distance(0.0, 0.0)}
    at_the_end = inputs(program.tensors["x"].high)
    largest = by_output(first_v=0.0, out_v=1.0)
    expected = simulate(program, at_the_end)
    for each in drawn(program, at_the_end, expected, largest):
        assert each.root_mean_square == pytest.approx((1 / 3) ** 0.5, rel=0.1), "half of the moves would leave it"


def test_more_are_drawn_until_they_tell_enough() -> None:
    program, given = doubled_twice(), inputs()
    how = program, given, simulate(program, given), by_output(first_v=1.0, out_v=0.0)
    assert len(drawn(*how, lambda draws: len(draws) >= 7)) == 7
    assert len(drawn(*how, lambda draws: False)) == MOST_DRAWS
    assert drawn(*how, lambda draws: False)[:DRAWS] == drawn(*how)


@pytest.mark.parametrize(("largest", "is_within"), [(9.0, True), (10.5, True), (10.6, False)])
def test_the_spread_of_many_says_how_far_another_may_be(largest: float, is_within: bool) -> None:
    """Half of them at 8 and half at 9: a mean of 8.5, a standard deviation of 0.51."""
    others = [Distance(1.0, 8.0 + index % 2) for index in range(MOST_DRAWS)]
    assert Distance(1.0, largest).within(others) == is_within
    assert not Distance(1.01, 8.0).within(others), "of equal ones there is no spread"
    assert not Distance(1.0, 9.1).within(others[:-1]), "fewer tell no spread"


def test_within_needs_both_measures() -> None:
    others = [Distance(1.0, 5.0), Distance(2.0, 3.0)]
    assert Distance(2.0, 5.0).within(others)
    assert not Distance(2.1, 1.0).within(others)
    assert not Distance(0.1, 5.1).within(others)
    assert not Distance(np.inf, np.inf).within([])


def test_what_is_lacking_or_no_number_is_infinitely_far() -> None:
    program, given = doubled_twice(), inputs()
    expected = simulate(program, given)
    none = Distance(np.inf, np.inf)
    assert distance(program, {}, expected) == none
    assert distance(program, {"out_v": expected["out_v"][:1]}, expected) == none
    assert distance(program, {"out_v": np.full(SHAPE, np.nan)}, expected) == none
    off = expected["out_v"].astype(np.float64)
    off.flat[0] -= 8.0
    assert distance(program, {"out_v": off}, expected) == Distance(8.0 / off.size**0.5, 8.0)

"""Broadcasting by Concat: the plan, executed with numpy, gives n copies."""

from __future__ import annotations

import numpy as np
import pytest

from nnkit.rewrite.broadcast import MAX_CONCAT_INPUTS, concat_plan, radices


def carried_out(length: int, limit: int = MAX_CONCAT_INPUTS) -> np.ndarray:
    plan = concat_plan(length, limit)
    values = [np.array([7.0])]
    for step in plan.steps:
        assert 2 <= len(step) <= limit
        values.append(np.concatenate([values[index] for index in step]))
    assert [value.size for value in values] == list(plan.lengths)
    return values[-1]


@pytest.mark.parametrize("length", [*range(1, 200), 512, 1000, 1021, 1023, 2048, 3583, 4093, 4095, 4096])
def test_the_plan_makes_that_many_copies(length):
    np.testing.assert_array_equal(carried_out(length), np.full(length, 7.0))


@pytest.mark.parametrize("limit", [2, 3, 5])
def test_other_limits(limit):
    for length in range(1, 100):
        assert carried_out(length, limit).size == length


@pytest.mark.parametrize("power", range(1, 13))
def test_powers_of_two_are_built_as_published(power):
    # 32 = 2^5 inputs as often as they fit, then the rest
    steps = [32] * (power // 5) + ([2 ** (power % 5)] if power % 5 else [])
    assert [len(step) for step in concat_plan(2**power).steps] == steps


def test_factors_are_the_fewest():
    for length in range(2, 400):
        found = radices(length)
        fewest = fewest_by_search(length)
        assert (None if found is None else len(found)) == fewest, length
        assert found is None or np.prod(found) == length


def fewest_by_search(length: int) -> int | None:
    if length <= 32:
        return 1
    below = [fewest_by_search(length // f) for f in range(2, 33) if length % f == 0]
    counts = [count for count in below if count is not None]
    return 1 + min(counts) if counts else None


@pytest.mark.parametrize(("length", "limit"), [(0, 32), (-1, 32), (4, 1)])
def test_what_cannot_be(length, limit):
    with pytest.raises(ValueError, match="no repetition"):
        concat_plan(length, limit)

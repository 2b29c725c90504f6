"""Broadcasting with Concat alone: one value repeated n times, for hardware that has neither Tile nor broadcasting.

A Concat takes `MAX_CONCAT_INPUTS` inputs at most, so longer repetitions are built in steps. A plan is a list of
steps; step i makes value i + 1 from values made before it, value 0 being the one that is repeated:

    n = 2^k           k // 5 times 32 inputs, then 2^(k mod 5): the published construction
    n = f1 f2 ...     factors of at most 32, fewest first, largest first: each step repeats the last value
    any other n       m = ceil(n / 32), n = q m + r: q times the value of length m and once the one of length r < m;
                      q is at most 31 where r > 0, because n / m is at most 32 and no whole number then
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

MAX_CONCAT_INPUTS = 32


@dataclass(frozen=True)
class ConcatPlan:
    """How a value of length 1 becomes one of length `lengths[-1]`.

    steps: for each Concat the indices of its inputs; 0 is the value itself, i + 1 the result of step i.
    lengths: of value 0, of the result of step 0, and so on.
    """

    steps: tuple[tuple[int, ...], ...]
    lengths: tuple[int, ...]


def concat_plan(length: int, limit: int = MAX_CONCAT_INPUTS) -> ConcatPlan:
    """The plan for `length` repetitions; no steps for 1.

    Raises:
        ValueError: `length` is below 1, or `limit` below 2.
    """
    if length < 1 or limit < 2:
        raise ValueError(f"no repetition of length {length} with {limit} inputs a step")
    building = _Building(limit)
    building.make(length)
    return ConcatPlan(tuple(building.steps), tuple(building.lengths))


@dataclass
class _Building:
    limit: int
    steps: list[tuple[int, ...]] = field(default_factory=list)
    lengths: list[int] = field(default_factory=lambda: [1])

    def make(self, length: int) -> int:
        """The index of a value of that length, made where there is none yet."""
        if length in self.lengths:
            return self.lengths.index(length)
        factors = radices(length, self.limit)
        if factors is not None:
            value, reached = 0, 1
            for factor in factors:
                reached *= factor
                known = reached in self.lengths
                value = self.lengths.index(reached) if known else self._step((value,) * factor, reached)
            return value
        block = -(-length // self.limit)
        count, rest = divmod(length, block)
        inputs = (self.make(block),) * count
        return self._step(inputs + ((self.make(rest),) if rest else ()), length)

    def _step(self, inputs: tuple[int, ...], length: int) -> int:
        self.steps.append(inputs)
        self.lengths.append(length)
        return len(self.lengths) - 1


def radices(length: int, limit: int = MAX_CONCAT_INPUTS) -> tuple[int, ...] | None:
    """Fewest factors from 2 to `limit` whose product is `length`, largest first; None where there are none.

    Of equally few, those with the largest first factor: 512 is 32 * 16.
    """
    if length == 1:
        return ()
    return _fewest(length, limit) or None


@lru_cache(maxsize=4096)
def _fewest(length: int, largest: int) -> tuple[int, ...]:
    """Non-increasing factors of at most `largest`; empty where there are none."""
    if length <= largest:
        return (length,)
    best: tuple[int, ...] = ()
    for factor in range(largest, 1, -1):
        if length % factor:
            continue
        rest = _fewest(length // factor, factor)
        if rest and (not best or 1 + len(rest) < len(best)):
            best = (factor, *rest)
    return best

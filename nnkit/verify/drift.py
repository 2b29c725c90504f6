"""How far outputs may lie from the simulation of a whole network whose layers may differ within bounds.

A layer's bound says nothing of the outputs: what differs there is computed on. Networks that keep to the bounds are
drawn instead: the simulation, with each layer's values moved at random by as much as they may be. Such a draw is no
upper bound of what is allowed; it is one of the networks that are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit.program import Float, OpBase, Program, Tensor
from nnkit.simulate import simulate_op

Values = Mapping[str, NDArray[Any]]
Bound: TypeAlias = float | NDArray[np.float64]
"""By how much stored values may differ: one number, or one for each."""
LayerBound: TypeAlias = Callable[[OpBase, Sequence[NDArray[Any]], NDArray[Any]], Bound]
"""That of a layer that reads these stored values and gives that, as simulated."""

DRAWS, MOST_DRAWS = 4, 24
"""A network that is like the drawn ones is further than all of n in one of two measures in up to 2 of n + 1 cases:
40 % with 4, 8 % with 24."""

_DEVIATIONS = 4.0
"""A largest difference, of Gumbel's distribution, exceeds so many in 0.3 % of cases, a mean hardly ever."""


class Distance(NamedTuple):
    """How far all outputs together are from the simulation, in stored values: root mean square, and the largest.

    Infinite where values are not finite or lacking.
    """

    root_mean_square: float
    largest: float

    def within(self, others: Sequence[Distance]) -> bool:
        """Whether, in both measures, one of the others is as far; of `MOST_DRAWS` and more, whether their spread lets
        it be: up to four standard deviations beyond their mean."""
        return all(mine <= _reach([each[measure] for each in others]) for measure, mine in enumerate(self))


def _reach(others: Sequence[float]) -> float:
    if len(others) < MOST_DRAWS:
        return max(others, default=-np.inf)
    return max(*others, float(np.mean(others) + _DEVIATIONS * np.std(others, ddof=1)))


def distance(program: Program, outputs: Values, simulated: Values) -> Distance:
    """How far outputs are from those that were simulated."""
    gaps = []
    for name in program.outputs:
        values, expected = outputs.get(name), simulated[name].ravel().astype(np.float64)
        if values is None or values.size != expected.size:
            return Distance(np.inf, np.inf)
        gaps.append(np.abs(values.ravel().astype(np.float64) - expected))
    every = np.concatenate(gaps)
    if not np.isfinite(every).all():
        return Distance(np.inf, np.inf)
    return Distance(float(np.sqrt(np.mean(every**2))), float(every.max())) if every.size else Distance(0.0, 0.0)


def furthest(distances: Sequence[Distance]) -> Distance:
    """The largest of each measure. distances: at least one."""
    return Distance(*map(max, zip(*distances, strict=True)))


def drawn(
    program: Program,
    given: Values,
    simulated: Values,
    bound: LayerBound,
    is_enough: Callable[[Sequence[Distance]], bool] = lambda distances: True,
) -> tuple[Distance, ...]:
    """The distances of `DRAWS` networks that keep to the bounds; without those that give no finite numbers.

    is_enough: whether distances tell what is asked; where they do not, there are more, up to `MOST_DRAWS`.
    The same inputs give the same draws.
    """
    random = np.random.default_rng(0)
    finite: list[Distance] = []
    with np.errstate(all="ignore"):
        for count in range(1, MOST_DRAWS + 1):
            one = distance(program, _moved(program, given, bound, random), simulated)
            finite += [one] if np.isfinite(one.largest) else []
            if count >= DRAWS and is_enough(finite):
                break
    return tuple(finite)


def _moved(program: Program, given: Values, bound: LayerBound, random: np.random.Generator) -> Values:
    values = dict(given)
    for op in program.ops:
        read = [values[name] for name in op.inputs]
        value = simulate_op(program, op, read)
        values[op.output] = _by_at_most(value, program.tensors[op.output], bound(op, read, value), random)
    return values


def _by_at_most(value: NDArray[Any], tensor: Tensor, bound: Bound, random: np.random.Generator) -> NDArray[Any]:
    """The values, each moved by up to `bound`: integers by whole numbers, within what the tensor holds."""
    if not np.any(bound):
        return value
    if isinstance(tensor.format, Float):
        return np.asarray(value + random.uniform(-bound, bound, value.shape), value.dtype)
    most = np.floor(bound).astype(np.int64)
    by = random.integers(-most, most, value.shape, endpoint=True)
    return np.asarray(np.clip(value.astype(np.int64) + by, tensor.low, tensor.high), value.dtype)

"""Adaptive rounding: every weight of a layer goes up or down as the layer's outputs need, not to the nearest.

For one output channel with stored weights q on a grid of step s, inputs x^ as the integer layers before it deliver
them and t the float layer's output, the squared error over the images is a quadratic form of q:

    sum (s q.x^ - t)^2 = s^2 q G q' - 2 s q.m + const,      G = sum x^ x^',  m = sum x^ t.

G and m are gathered in one pass over the images, in memory that does not depend on their number; after that no image
is needed. Where the bias is corrected afterwards, means cost nothing, so that covariances take the place of G and m.
What t is, is a choice: with the float layer's outputs on *float* inputs the weights also make up for what the layers
before lost, but learn its chance from the images; with its outputs on the *same* inputs x^ (m = G w, w the unrounded
weights) they cannot. The mean of both is taken.

The search is the one of Nagel et al., "Up or down? Adaptive rounding for post-training quantization", 2020: soft
roundings h in [0, 1] by Adam with a regulariser that ends in 0 or 1. Two steepest descents over single flips then
start from its result and from rounding to the nearest, and each channel keeps the better one: it never ends with a
larger error than the nearest gives. Without steps there is the descent from the nearest alone: it takes seconds, and
in what was measured it ends as well. (The activation behind the layer is left out of the error, which would make G
differ between channels.) All steps are counted, none is random: the same number of steps gives the same weights.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nnkit.program import Window
from nnkit.program.window import padded, taps

_RATE = 0.02
_REGULARISER = 0.02
_WARM_UP = 0.2  # share of the steps before the regulariser sets in
_SHARPNESS = (20.0, 2.0)  # its exponent, from first to last
_STRETCH = (-0.1, 1.1)  # of the sigmoid, so that 0 and 1 are reached
_UPSTREAM = 0.5
_MOST_COLUMNS = 4096  # of one part of the samples: positions beyond are thinned out evenly

Array = NDArray[np.float64]


@dataclass(frozen=True)
class AdaRound:
    """What the search may take.

    steps: of Adam, a layer, before single flips (0: flips alone).
    seconds: for all layers together; layers that it does not reach are rounded to the nearest, so that a limit makes
        the result depend on the machine (None: no limit).
    """

    steps: int = 0
    seconds: float | None = None


@dataclass(frozen=True)
class RoundingReport:
    """What adaptive rounding did to a layer.

    steps: of Adam; flips: single ones after them.
    error_ratio: squared error on the calibration images against rounding to the nearest (1: no gain).
    seconds: wall time.
    """

    layer: str
    steps: int
    flips: int
    error_ratio: float
    seconds: float


@dataclass(eq=False)
class Moments:
    """Sums over columns of a convolution's inputs. inputs: I/g * kh * kw of each of `groups`; outputs: O/g."""

    groups: int
    inputs: int
    outputs: int
    count: int = 0
    second: Array = field(init=False)  # [g, K, K]
    cross: Array = field(init=False)  # [g, K, O/g]
    mean_in: Array = field(init=False)  # [g, K]
    mean_out: Array = field(init=False)  # [g, O/g]
    power: Array = field(init=False)  # [g, O/g], of the targets

    def __post_init__(self) -> None:
        self.second = np.zeros((self.groups, self.inputs, self.inputs))
        self.cross = np.zeros((self.groups, self.inputs, self.outputs))
        self.mean_in = np.zeros((self.groups, self.inputs))
        self.mean_out = np.zeros((self.groups, self.outputs))
        self.power = np.zeros((self.groups, self.outputs))

    def add_inputs(self, x: NDArray[np.float32], window: Window, pad_value: float) -> None:
        """One part of the samples, x [N, C, H, W] in real units, without targets: `aim_at` makes them."""
        columns = self._columns(x, window, pad_value)[0]
        for group in range(self.groups):
            self.second[group] += columns[:, group].T @ columns[:, group]
        self.mean_in += columns.sum(axis=0, dtype=np.float64)
        self.count += len(columns)

    def aim_at(self, weight: Array, damping: float) -> None:
        """Take as targets what these weights, [O, I/g, kh, kw] in real units, make of the inputs that were added.

        damping: of the mean square of an input, is added to every square: few columns do not tell all directions.
        """
        rows = weight.reshape(self.groups, self.outputs, -1)
        for group in range(self.groups):
            self.second[group] += damping * np.trace(self.second[group]) / self.inputs * np.eye(self.inputs)
        self.cross = self.second @ rows.transpose(0, 2, 1)
        self.mean_out = np.einsum("gk,gok->go", self.mean_in, rows)
        self.power = np.einsum("gok,gko->go", rows, self.cross)

    def add(self, x: NDArray[np.float32], targets: NDArray[np.float32], window: Window, pad_value: float) -> None:
        """One part of the samples: x [N, C, H, W] in real units, targets [N, O, OH, OW] without bias."""
        columns, (image, row, column) = self._columns(x, window, pad_value)
        wanted = targets[image, :, row, column].reshape(len(columns), self.groups, self.outputs)
        for group in range(self.groups):
            part, want = columns[:, group], wanted[:, group]
            self.second[group] += part.T @ part
            self.cross[group] += part.T @ want
        self.mean_in += columns.sum(axis=0, dtype=np.float64)
        self.mean_out += wanted.sum(axis=0, dtype=np.float64)
        self.power += np.square(wanted, dtype=np.float64).sum(axis=0)
        self.count += len(columns)

    def _columns(
        self, x: NDArray[np.float32], window: Window, pad_value: float
    ) -> tuple[NDArray[np.float32], tuple[NDArray[np.intp], ...]]:
        """[n, groups, inputs] that outputs are made of, at most so many of them, and where: image, row, column."""
        views = taps(padded(x, window, pad_value), window)
        count, _, height, width = views.shape[:4]
        stride = max(1, -(-count * height * width // _MOST_COLUMNS))
        chosen = np.arange(0, count * height * width, stride)
        image, row, column = np.unravel_index(chosen, (count, height, width))
        return views[image, :, row, column].reshape(chosen.size, self.groups, self.inputs), (image, row, column)

    def form(self, *, centred: bool) -> tuple[Array, Array, Array]:
        """G [g, K, K], m [g, O/g, K] and the targets' power [g, O/g]: means over columns; centred: covariances."""
        second, cross, power = self.second / self.count, self.cross / self.count, self.power / self.count
        if centred:
            inner, outer = self.mean_in / self.count, self.mean_out / self.count
            second = second - inner[:, :, None] * inner[:, None, :]
            cross = cross - inner[:, :, None] * outer[:, None, :]
            power = power - np.square(outer)
        return second, cross.transpose(0, 2, 1), power


def adapt(weight: Array, scales: Array, moments: Moments, steps: int, *, centred: bool) -> tuple[Array, int, float]:
    """Stored weights rounded up or down.

    weight: conv [O, I/g, kh, kw] in units of its scales (real weight / scale); scales [O].
    Returns whole numbers of that shape within one of `weight`, how many flips were made, and the squared error
    relative to rounding to the nearest.
    """
    second, cross, power = moments.form(centred=centred)
    groups, outputs = moments.groups, moments.outputs
    rows = weight.reshape(groups, outputs, -1)
    sizes = np.trace(second, axis1=1, axis2=2) / rows.shape[2]
    nearest = np.rint(rows)
    seen = np.flatnonzero(sizes > 0.0)  # groups whose inputs are not all zero
    result = nearest.copy()
    if not seen.size:
        return result.reshape(weight.shape), 0, 1.0
    rows, nearest, size = rows[seen], nearest[seen], sizes[seen, np.newaxis, np.newaxis]
    units = scales.reshape(groups, outputs)[seen]
    form = second[seen] / size
    upstream = cross[seen] / (size * units[:, :, np.newaxis])
    aim = _UPSTREAM * upstream + ((1.0 - _UPSTREAM) * rows) @ form
    starts = [nearest]
    if steps:
        each = zip(rows, form, aim, strict=True)
        starts.append(np.stack([relaxed(w, g, m, steps) for w, g, m in each]))
    ends = [_descended(start, rows, form, aim) for start in starts]
    errors = np.stack([_error(end, form, aim) for end, _ in ends])
    best = errors.argmin(axis=0)
    result[seen] = np.where(best[:, :, np.newaxis] == 0, ends[0][0], ends[-1][0])
    weighting = np.square(units) * size[:, :, 0]
    # The error that the aim stands for; both ways of choosing t have the same form and their own constant.
    own = _UPSTREAM * power[seen].sum()
    own += (1.0 - _UPSTREAM) * np.sum(weighting * np.sum((rows @ form) * rows, axis=2))
    before = float(np.sum(weighting * _error(nearest, form, aim)) + own)
    after = float(np.sum(weighting * errors.min(axis=0)) + own)
    flips = sum(count for _, count in ends)
    return result.reshape(weight.shape), flips, after / before if before > 0.0 else 1.0


def _error(q: Array, form: Array, aim: Array) -> Array:
    """q G q' - 2 q.m of every row, [g, O]."""
    return np.asarray(np.sum((q @ form - 2.0 * aim) * q, axis=2))


def relaxed(weight: Array, form: Array, aim: Array, steps: int) -> Array:
    """Soft rounding by Adam, rounded at the end. weight [O, K] in units of its scales; form [K, K]; aim [O, K]."""
    floor = np.floor(weight)
    movable = floor != weight  # a whole number has no second neighbour
    low, high = _STRETCH
    share = (weight - floor - low) / (high - low)
    v = np.log(share / (1.0 - share))
    first, second = np.zeros_like(v), np.zeros_like(v)
    for step in range(1, steps + 1):
        sigmoid = 1.0 / (1.0 + np.exp(-v))
        stretched = sigmoid * (high - low) + low
        h = np.clip(stretched, 0.0, 1.0)
        gradient = 2.0 * ((floor + h) @ form - aim)
        progress = step / steps
        if progress > _WARM_UP:
            done = (progress - _WARM_UP) / (1.0 - _WARM_UP)
            beta = _SHARPNESS[0] + (_SHARPNESS[1] - _SHARPNESS[0]) * done
            side = 2.0 * h - 1.0
            gradient -= _REGULARISER * 2.0 * beta * np.abs(side) ** (beta - 1.0) * np.sign(side)
        gradient *= (high - low) * sigmoid * (1.0 - sigmoid)
        gradient[(stretched < 0.0) | (stretched > 1.0)] = 0.0
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient * gradient
        v -= _RATE * (first / (1.0 - 0.9**step)) / (np.sqrt(second / (1.0 - 0.999**step)) + 1e-12)
    h = np.clip((high - low) / (1.0 + np.exp(-v)) + low, 0.0, 1.0)
    return np.asarray(floor + ((h >= 0.5) & movable))


def _descended(start: Array, weight: Array, form: Array, aim: Array) -> tuple[Array, int]:
    """Single flips between the two neighbours of each weight, the best one of each row first, while any helps.

    start, weight, aim: [g, O, K]; form: [g, K, K]. Rows that are done are left out once they are half of all.
    """
    groups, outputs, inputs = start.shape
    ends = start.reshape(-1, inputs).copy()
    q, slope, real = ends.copy(), (start @ form - aim).reshape(ends.shape), weight.reshape(ends.shape)
    places, group = np.arange(len(ends)), np.repeat(np.arange(groups), outputs)
    floor = np.floor(real)
    moves = np.where(q > floor, -2.0, 2.0)  # twice the flips that there are
    own = np.where(floor == real, np.inf, np.diagonal(form, axis1=1, axis2=2)[group])  # whole numbers stay
    flips = 0
    for _ in range(4 * inputs):
        change = moves * slope
        change += own
        rows = np.arange(len(q))
        best = change.argmin(axis=1)
        useful = change[rows, best] < -1e-12
        count = int(useful.sum())
        if count == 0:
            break
        flips += count
        step = np.where(useful, 0.5 * moves[rows, best], 0.0)
        q[rows, best] += step
        moves[rows, best] -= 4.0 * step
        slope += step[:, np.newaxis] * form[group, best]
        if 2 * count < len(q):
            ends[places[~useful]] = q[~useful]
            places, group, q, slope, moves, own = (each[useful] for each in (places, group, q, slope, moves, own))
    ends[places] = q
    return ends.reshape(start.shape), flips

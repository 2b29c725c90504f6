"""The range methods of calibration by name, for formats of any number of bits."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final, Literal, TypeAlias, get_args
from weakref import WeakKeyDictionary

from nnkit.calibrate.kl import kl_range
from nnkit.calibrate.observers import Histogram
from nnkit.calibrate.ranges import FormatKind, max_range, mse_range, percentile_range, widest_range
from nnkit.calibrate.room import given_room
from nnkit.calibrate.stats import CalibrationStats, ValueRange
from nnkit.defaults import PERCENTILE

Method: TypeAlias = Literal["max", "percentile", "mse", "kl"]

METHODS: tuple[Method, ...] = get_args(Method)

AUTO: Final = "auto"
"""Stands for the method that is best on held-out inputs."""

SEARCHES: frozenset[str] = frozenset({"mse", "kl"})
"""Methods that weigh clipping against resolution: their ranges depend on the format's bits."""

_WIDEST: Final = "widest"

_searched: WeakKeyDictionary[Histogram, dict[tuple[str, int, bool, FormatKind], ValueRange]] = WeakKeyDictionary()
"""What was found for histograms that are still there: trials of programs ask for the same ranges many times."""


def range_of(
    histogram: Histogram,
    method: Method,
    *,
    bits: int = 8,
    signed: bool | None = None,
    kind: FormatKind = "power_of_two",
    percentile: float = PERCENTILE,
) -> ValueRange:
    """The range that a method gives.

    signed: whether the format is; None: where negative numbers were seen.
    """
    if method == "max":
        return max_range(histogram.extremes)
    if method == "percentile":
        return percentile_range(histogram, percentile)
    return _searched_for(method, histogram, bits, signed, kind)


def _searched_for(what: str, histogram: Histogram, bits: int, signed: bool | None, kind: FormatKind) -> ValueRange:
    wanted = what, bits, histogram.extremes.low < 0.0 if signed is None else signed, kind
    known = _searched.setdefault(histogram, {})
    if wanted not in known:
        search = {"kl": kl_range, "mse": mse_range, _WIDEST: widest_range}[what]
        known[wanted] = search(histogram, *wanted[1:])
    return known[wanted]


def by_method(
    stats: CalibrationStats, method: Method, *, bits: int = 8, percentile: float = PERCENTILE
) -> CalibrationStats:
    """Stats with the ranges of another method, from the same histograms."""
    ranges = {
        name: given_room(stats, name, range_of(histogram, method, bits=bits, percentile=percentile))
        for name, histogram in stats.histograms.items()
    }
    return replace(
        stats,
        ranges=ranges,
        method=method,
        percentile=percentile if method == "percentile" else None,
        mse_bits=bits if method in SEARCHES else None,
        tuned=frozenset(),
    )


def refit(
    stats: CalibrationStats,
    bits: Mapping[str, int],
    *,
    kind: FormatKind = "power_of_two",
    signed: bool | None = None,
    one_sided: Collection[str] = (),
) -> CalibrationStats:
    """Stats of `mse` or `kl` for formats of other widths or kinds: ranges that fit each value's own format.

    Args:
        bits: by value name; values that are not listed or were tuned, and stats of other methods, stay as they are.
        kind, signed: of all these formats; signed: None: where negative numbers were seen.
        one_sided: values that are large on one side alone: with `kl`, which clips more than their sums bear, they get
            the widest range whose squared error is next to the least.
    """
    method: Method
    if stats.method == "mse":
        method = "mse"
    elif stats.method == "kl":
        method = "kl"
    else:
        return stats
    ranges = dict(stats.ranges)
    for name, histogram in stats.histograms.items():
        if name in bits and name not in stats.tuned:
            what = _WIDEST if method == "kl" and name in one_sided else method
            fitted = _searched_for(what, histogram, bits[name], signed, kind)
            ranges[name] = given_room(stats, name, fitted)
    return replace(stats, ranges=ranges)

"""Overlaps proven from `plan.json` alone, against kernels that really run in shared memory, byte by byte."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnkit.memory.accesses import Accesses, Order
from nnkit.memory.diagonal import Window
from nnkit.package.overlaps import least_distance_bytes

Access = tuple[set[int], set[int]]
"""The bytes that a step reads, and then those that it writes."""


def taps(window: Window, pixel: int) -> list[int]:
    """The pixels of the input under the window of an output pixel."""
    row, column = divmod(pixel, window.out_width)
    places = [
        (row * window.stride[0] - window.padding[0] + y * window.dilation[0],
         column * window.stride[1] - window.padding[1] + x * window.dilation[1])
        for y in range(window.kernel[0])
        for x in range(window.kernel[1])
    ]  # fmt: skip
    return [y * window.width + x for y, x in places if 0 <= y < window.height and 0 <= x < window.width]


def block(first: int, count: int, size: int) -> set[int]:
    return set(range(first * size, (first + count) * size))


def run(it: Accesses) -> Iterator[Access]:
    """The kernel's accesses as its loops make them."""
    window = it.window
    plane, out_plane = window.height * window.width, window.out_height * window.out_width
    if it.order == "groups":
        maps, channels = it.out_channels // it.groups, it.channels // it.groups
        for group in range(it.groups):
            read = block(group * channels * plane, channels * plane, it.input_bytes)
            for each in range(group * maps, (group + 1) * maps):
                yield read, set()
                yield set(), block(each * out_plane, out_plane, it.output_bytes)
                yield read, set()
        return
    by_pixel = it.order == "pixels"
    unit, out_unit = (it.channels, it.out_channels) if by_pixel else (1, 1)
    for channel in range(1 if by_pixel else it.channels):
        for start in range(0, out_plane, it.together):
            pixels = range(start, min(start + it.together, out_plane))
            read = set[int]()
            for pixel in pixels:
                for tap in taps(window, pixel):
                    read |= block((channel * plane + tap) * unit, unit, it.input_bytes)
            written = block((channel * out_plane + start) * out_unit, len(pixels) * out_unit, it.output_bytes)
            yield read, written
            if it.rereads:
                yield read, set()


def is_safe(it: Accesses, distance: int) -> bool:
    """Whether no byte of the input is written before it was read for the last time."""
    written = set[int]()
    for reads, writes in run(it):
        if any(distance + byte in written for byte in reads):
            return False
        written |= writes
    return True


@st.composite
def accesses(draw: st.DrawFn) -> Accesses:
    small, sides = st.integers(1, 3), st.integers(1, 5)
    order: Order = draw(st.sampled_from(("pixels", "planes", "groups")))
    window = Window(
        draw(sides), draw(sides), draw(sides), draw(sides), (draw(small), draw(small)), (draw(small), draw(small)),
        (draw(st.integers(0, 3)), draw(st.integers(0, 3))), (draw(small), draw(small)),
    )  # fmt: skip
    groups = draw(small) if order == "groups" else 1
    channels, out_channels = groups * draw(small), groups * draw(small)
    return Accesses(
        order, window, channels, channels if order == "planes" else out_channels, draw(small), draw(small), groups,
        draw(small) if order == "pixels" else 1, order == "groups" or draw(st.booleans()),
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(accesses())
def test_the_distance_is_the_least_that_is_safe_and_the_planners(it: Accesses) -> None:
    least = least_distance_bytes(asdict(it))
    assert is_safe(it, least)
    assert is_safe(it, least + 1)
    assert least == 1 or not is_safe(it, least - 1)
    assert it.distance_bytes == least


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"order": "columns"}, "no order"),
        ({"order": "planes"}, "no order"),
        ({"together": 0}, "below 1"),
        ({"channels": 1 << 60}, "too large"),
        ({"order": "groups", "groups": 3}, "3 groups of 4"),
    ],
)
def test_what_is_no_order_of_accesses_is_refused(change: dict[str, Any], reason: str) -> None:
    it = asdict(Accesses("pixels", Window(4, 4, 2, 2, (2, 2), (2, 2)), 4, 2, 1, 1))
    with pytest.raises(ValueError, match=reason):
        least_distance_bytes(it | change)

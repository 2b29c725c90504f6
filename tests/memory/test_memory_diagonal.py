"""Safe distances against kernels that really run in shared memory, byte by byte."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnkit.errors import InternalError
from nnkit.memory import diagonal
from nnkit.memory.diagonal import Window, safe_distance_bytes

Kernel = Iterator[tuple[list[int], list[int]]]
"""Steps: input bytes read, output bytes written."""


def runs_clean(kernel: Kernel, input_bytes: int, distance: int) -> bool:
    """Run a kernel with the input `distance` bytes above the output and see whether a read finds a written byte."""
    memory = [-1] * (distance + 10 * input_bytes + 5000)
    for byte in range(input_bytes):
        memory[distance + byte] = byte
    for reads, writes in kernel:
        if any(memory[distance + byte] != byte for byte in reads):
            return False
        for byte in writes:
            memory[byte] = -2
    return True


def check_tight(make: Callable[[], Kernel], input_bytes: int, distance: int) -> None:
    for safe in (distance, distance + 1, distance + 7):
        assert runs_clean(make(), input_bytes, safe)
    if distance > 1:
        assert not runs_clean(make(), input_bytes, distance - 1)


def window_steps(window: Window) -> Iterator[tuple[int, list[int]]]:
    """(output pixel, input pixels) in row-major order."""
    for y in range(window.out_height):
        for x in range(window.out_width):
            pixels = []
            for dy in range(window.kernel[0]):
                for dx in range(window.kernel[1]):
                    row = y * window.stride[0] - window.padding[0] + dy * window.dilation[0]
                    column = x * window.stride[1] - window.padding[1] + dx * window.dilation[1]
                    if 0 <= row < window.height and 0 <= column < window.width:
                        pixels.append(row * window.width + column)
            yield y * window.out_width + x, pixels


def spread(index: int, size: int) -> list[int]:
    return list(range(index * size, (index + 1) * size))


def channels_last(window: Window, channels: int, out_channels: int, in_bytes: int, out_bytes: int) -> Kernel:
    for out, pixels in window_steps(window):
        reads = [byte for pixel in pixels for byte in spread(pixel, channels * in_bytes)]
        yield reads, spread(out, out_channels * out_bytes)


def per_channel(window: Window, channels: int, in_bytes: int, out_bytes: int) -> Kernel:
    plane, out_plane = window.height * window.width, window.out_height * window.out_width
    for channel in range(channels):
        for out, pixels in window_steps(window):
            reads = [byte for pixel in pixels for byte in spread(channel * plane + pixel, in_bytes)]
            yield reads, spread(channel * out_plane + out, out_bytes)


@st.composite
def windows(draw: st.DrawFn) -> Window:
    height, width = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    kernel = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    stride = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    dilation = (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    padding = (draw(st.integers(0, 2)), draw(st.integers(0, 2)))
    out = [draw(st.integers(1, 5)) for _ in range(2)]
    return Window(height, width, out[0], out[1], kernel, stride, padding, dilation)


@settings(max_examples=150, deadline=None)
@given(windows(), st.integers(1, 3), st.integers(1, 4), st.sampled_from([1, 2]), st.sampled_from([1, 2]))
def test_channels_last_windows_are_safe_and_tight(
    window: Window, channels: int, out_channels: int, in_bytes: int, out_bytes: int
) -> None:
    trace = diagonal.channels_last(window, channels, out_channels, in_bytes, out_bytes)
    size = window.height * window.width * channels * in_bytes
    make = lambda: channels_last(window, channels, out_channels, in_bytes, out_bytes)  # noqa: E731
    check_tight(make, size, safe_distance_bytes(trace))


@settings(max_examples=150, deadline=None)
@given(windows(), st.integers(1, 3), st.sampled_from([1, 2]), st.sampled_from([1, 2]))
def test_channels_first_windows_are_safe_and_tight(
    window: Window, channels: int, in_bytes: int, out_bytes: int
) -> None:
    trace = diagonal.channels_first_per_channel(window, channels, in_bytes, out_bytes)
    size = window.height * window.width * channels * in_bytes
    make = lambda: per_channel(window, channels, in_bytes, out_bytes)  # noqa: E731
    check_tight(make, size, safe_distance_bytes(trace))


@given(st.integers(1, 30), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]))
def test_elementwise_ops_are_safe_and_tight(elements: int, in_bytes: int, out_bytes: int) -> None:
    trace = diagonal.elementwise(elements, in_bytes, out_bytes)
    make = lambda: iter([(spread(k, in_bytes), spread(k, out_bytes)) for k in range(elements)])  # noqa: E731
    check_tight(make, elements * in_bytes, safe_distance_bytes(trace))


def test_a_hand_worked_distance() -> None:
    # 3x3, padding 1, 4x4 pixels of one byte: before output (1, 1) five bytes are written, and it reads input (0, 0).
    # The pair takes 16 + 5 bytes instead of 32.
    window = Window(4, 4, 4, 4, (3, 3), padding=(1, 1))
    trace = diagonal.channels_last(window, 1, 1, 1, 1)
    assert safe_distance_bytes(trace) == 5


def test_widening_an_element_needs_the_output_to_run_ahead() -> None:
    # int8 -> int32, 10 elements: after 9 of them 36 bytes are written, and byte 9 is still to be read.
    assert safe_distance_bytes(diagonal.elementwise(10, 1, 4)) == 27


def test_steps_of_ones_own_and_their_contradiction() -> None:
    trace = diagonal.of_steps([0, None, 2], [0, 6, 8])
    assert safe_distance_bytes(trace) == 4
    with pytest.raises(InternalError, match="differ in number"):
        safe_distance_bytes(diagonal.Trace(np.zeros(2, np.int64), np.zeros(3, np.int64), 1))

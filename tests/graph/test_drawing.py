"""Random numbers drawn in blocks are those drawn at once, and take the memory of one array."""

from __future__ import annotations

import tracemalloc

import numpy as np

from nnkit.graph.drawing import drawn_float32

SHAPE = (3, 1024, 1025)  # three blocks and a part of one


def test_the_numbers_are_those_drawn_at_once() -> None:
    block, whole = np.random.default_rng(5), np.random.default_rng(5)
    np.testing.assert_array_equal(
        drawn_float32(block.standard_normal, SHAPE), whole.standard_normal(SHAPE).astype(np.float32)
    )
    found = drawn_float32(lambda count: block.uniform(0.0, 255.0, count), SHAPE)
    np.testing.assert_array_equal(found, whole.uniform(0.0, 255.0, SHAPE).astype(np.float32))


def test_they_are_never_all_there_as_float64() -> None:
    shape = (16, 1024, 1024)
    generator = np.random.default_rng(0)
    tracemalloc.start()
    try:
        values = drawn_float32(generator.standard_normal, shape)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 1.5 * values.nbytes

"""softmax, argmax, topk and l2_normalize in C against their definitions in numpy; those against plain formulas."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from nnkit.errors import UsageError
from nnkit.postprocess import ArgMax, L2Normalize, Numbers, Softmax, TopK, argmax, l2_normalize, softmax, topk

ROWS, CLASSES, K = 7, 9, 4
NUMBERS = {
    "float": Numbers(),
    "u8": Numbers(8, False, 0.1, 40),
    "i8": Numbers(8, True, 0.031, -5),
    "u16": Numbers(16, False, 0.001, 30_000),
    "i16": Numbers(16, True, 2.0**-10),
}


def drawn(numbers: Numbers, seed: int) -> NDArray[np.generic]:
    random = np.random.default_rng(seed)
    if numbers.is_float:
        values = random.normal(size=(ROWS, CLASSES)).astype(np.float32) * np.float32([1, 50, 1e-3, 1e30][seed % 4])
        if seed % 3 == 1:
            odd = np.float32([np.nan, np.inf, -np.inf, 3.4e38, 0])
            values = random.choice(odd, values.shape).astype(np.float32)
        return values
    limits = np.iinfo(numbers.dtype)
    if seed % 3 == 1:
        return random.choice([limits.min, numbers.zero, limits.max], (ROWS, CLASSES)).astype(numbers.dtype)
    return random.integers(limits.min, limits.max + 1, (ROWS, CLASSES)).astype(numbers.dtype)


@pytest.mark.parametrize("name", NUMBERS)
def test_generated_c_equals_numpy(name: str, run_driver) -> None:
    numbers = NUMBERS[name]
    shape = (ROWS, CLASSES, numbers)
    stages = Softmax(*shape), ArgMax(*shape), TopK(*shape, K), L2Normalize(*shape)
    data, expected = b"", b""
    for seed in range(24):
        values = drawn(numbers, seed)
        data += values.tobytes()
        expected += softmax(values, stages[0]).tobytes() + argmax(values, stages[1]).tobytes()
        expected += topk(values, stages[2]).tobytes() + l2_normalize(values, stages[3]).tobytes()
    assert run_driver(stages, "scores_driver.c", data) == expected


@pytest.mark.parametrize("name", NUMBERS)
def test_the_definitions_are_those_of_the_words(name: str) -> None:
    numbers = NUMBERS[name]
    shape = (ROWS, CLASSES, numbers)
    for seed in (0, 3, 6):
        values = drawn(numbers, seed) if name != "float" else np.float32(drawn(numbers, 4 * seed) * 3)
        real = numbers.real(values)
        powers = np.exp(real - real.max(axis=1, keepdims=True))
        probabilities = powers / powers.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(softmax(values, Softmax(*shape)), probabilities, rtol=1e-7, atol=1e-37)
        np.testing.assert_array_equal(argmax(values, ArgMax(*shape)), np.argmax(real, axis=1))
        order = [sorted(range(CLASSES), key=lambda i, row=row: (-row[i], i))[:K] for row in real]
        np.testing.assert_array_equal(topk(values, TopK(*shape, K)), order)
        lengths = np.linalg.norm(real, axis=1, keepdims=True)
        np.testing.assert_allclose(l2_normalize(values, L2Normalize(*shape)), real / lengths, rtol=1e-6)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(UsageError, match="pass 63 values of float32"):
        softmax(np.zeros(3, np.float32), Softmax(ROWS, CLASSES, Numbers()))
    with pytest.raises(UsageError, match="out of range"):
        TopK(ROWS, CLASSES, Numbers(), 10)

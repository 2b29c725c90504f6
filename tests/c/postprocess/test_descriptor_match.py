"""Descriptor matching in C against its definition in numpy."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from nnkit.postprocess import DescriptorMatch, Gallery
from nnkit.program import Affine, Fixed, Float

ERROR_NULL, ERROR_FULL, ERROR_GALLERY = -1, -5, -6
NO_INDEX = 0xFFFFFFFF
ALL_ONES = (1 << 64) - 1


def random_descriptor(rng: np.random.Generator, params: DescriptorMatch) -> np.ndarray:
    """Ordinary, sparse, tiny, extreme and all-zero descriptors [length]."""
    length = params.length
    if isinstance(params.format, Float):
        values = rng.normal(size=length) * rng.choice([0.0, 1e-3, 1.0, 1e20])
        values[rng.random(length) < 0.02] = rng.choice([np.nan, np.inf])
        return values.astype(np.float32)
    low, high = params.format.qmin, params.format.qmax
    kind = rng.integers(0, 6)
    if kind == 0:
        values = rng.choice([low, high], length)
    elif kind == 1:
        values = np.full(length, rng.choice([low, 0, 1, high]))
    else:
        scale = int(rng.choice([2, 30, 300, 5000, 65536]))
        values = rng.integers(max(low, -scale), min(high, scale) + 1, length)
        values *= rng.random(length) < rng.choice([0.05, 1.0])
    return values.astype(params.format.dtype)


def record(status: int, index: int = 0, known: bool = False, distance: int = 0) -> bytes:
    return struct.pack("=iIIII", status, index, known, distance >> 32, distance & 0xFFFFFFFF)


@pytest.mark.parametrize(
    "params",
    [
        DescriptorMatch(length=512, format=Fixed(16, 10), capacity=16, threshold=300.0),
        DescriptorMatch(length=512, format=Fixed(16, 10), capacity=16, threshold=1.0, normalize=True),
        DescriptorMatch(length=1, format=Fixed(16, 0), capacity=1, threshold=0.0),
        DescriptorMatch(length=5, format=Fixed(16, 3), capacity=40, threshold=1000.0, normalize=True),
        DescriptorMatch(length=65536, format=Fixed(16, 0), capacity=2, threshold=16.7e6),
        DescriptorMatch(length=65536, format=Fixed(16, 0), capacity=2, threshold=1.4, normalize=True),
        DescriptorMatch(length=64, format=Fixed(8, 4), capacity=5, threshold=9.0),
        DescriptorMatch(length=64, format=Fixed(8, 4), capacity=5, threshold=0.5, normalize=True),
        DescriptorMatch(length=9, format=Fixed(16, 4, signed=False), capacity=5, threshold=90.0),
        DescriptorMatch(length=65536, format=Fixed(16, 4, signed=False), capacity=2, threshold=0.5, normalize=True),
        DescriptorMatch(length=9, format=Fixed(8, 4, signed=False), capacity=5, threshold=3.0),
        DescriptorMatch(length=9, format=Affine(8, (0.07,), (119,)), capacity=5, threshold=9.0),
        DescriptorMatch(length=9, format=Affine(8, (0.07,), (119,)), capacity=5, threshold=0.9, normalize=True),
        DescriptorMatch(length=70, format=Affine(16, (0.001,), (65535,)), capacity=5, threshold=0.9, normalize=True),
        DescriptorMatch(length=40, format=Float(32), capacity=5, threshold=0.9, normalize=True),
    ],
    ids=str,
)
def test_generated_c_equals_numpy(params: DescriptorMatch, run_driver) -> None:
    rng = np.random.default_rng(params.length + params.normalize)
    rounds, queries = (3, 12) if params.length > 1000 else (8, 150)
    data, expected = [], []
    outcomes = set()
    for _ in range(rounds):
        gallery = Gallery(params)
        enrolled: list[np.ndarray] = []
        data.append(b"i")
        expected.append(record(0))
        for _ in range(queries):
            descriptor = random_descriptor(rng, params)
            if rng.random() < 0.3:
                index = gallery.enrol(descriptor)
                if index is not None:
                    enrolled.append(descriptor)
                data.append(b"e" + descriptor.tobytes())
                expected.append(record(ERROR_FULL) if index is None else record(0, index))
                outcomes.add("full" if index is None else "enrolled")
            else:
                if rng.random() < 0.4 and enrolled:
                    descriptor = enrolled[int(rng.integers(len(enrolled)))]
                best = gallery.match(descriptor)
                index = NO_INDEX if best.index is None else best.index
                distance = ALL_ONES if best.squared_distance is None else best.squared_distance
                data.append(b"m" + descriptor.tobytes())
                expected.append(record(0, index, best.known, distance))
                outcomes.add("known" if best.known else "unknown")
    assert outcomes >= {"enrolled", "known", "unknown"}
    assert run_driver([params], "match_driver.c", b"".join(data)) == b"".join(expected)


def test_largest_distance_does_not_overflow(run_driver) -> None:
    params = DescriptorMatch(length=65536, format=Fixed(16, 0), capacity=1, threshold=2.0**24)
    low, high = np.full(65536, -32768, np.int16), np.full(65536, 32767, np.int16)
    gallery = Gallery(params)
    gallery.enrol(low)
    best = gallery.match(high)
    assert best.squared_distance == 65536 * 65535**2
    answer = run_driver([params], "match_driver.c", b"ie" + low.tobytes() + b"m" + high.tobytes())
    assert answer == record(0) + record(0, 0) + record(0, 0, True, 65536 * 65535**2)


def test_c_refuses_bad_arguments_with_the_documented_codes(run_driver) -> None:
    params = DescriptorMatch(length=4, format=Fixed(16, 0), capacity=2, threshold=1.0)
    lines = run_driver([params], "match_contract_driver.c").decode().split("\n")[:-1]
    statuses = {name: int(status) for name, status in (line.split() for line in lines)}
    nulls = ["init", "enrol_null_gallery", "enrol_null_descriptor", "enrol_null_index"]
    nulls += ["match_null_gallery", "match_null_descriptor", "match_null_match"]
    expected = {name if "null" in name else f"{name}_null": ERROR_NULL for name in nulls}
    expected |= {"enrol_corrupt": ERROR_GALLERY, "match_corrupt": ERROR_GALLERY, "enrol_full": ERROR_FULL}
    assert statuses == expected

"""Sums, products and activations against plain loops."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.c.fixed.kernel_check import check_ops, needs_gcc
from tests.c.fixed.programs import S8, S16, U16
from tests.c.fixed.random_ops import SIGNED, TYPES, Random


@needs_gcc
@pytest.mark.parametrize("kind", ["add", "mul", "activation"])
def test_all_types(kind: str, tmp_path: Path) -> None:
    r = Random(11)
    for x in TYPES:
        r.elementwise(kind, x, r.pick(*TYPES), r.pick(*TYPES))
        r.elementwise(kind, x, x, x)
    for y in SIGNED:
        r.elementwise(kind, S16, S8, y, leaky=True)
    for x in (S16, U16):
        r.elementwise(kind, x, U16, S16, acc="int64")
        r.elementwise(kind, x, S16, S16, acc="int64", leaky=True)
    check_ops(r, tmp_path)

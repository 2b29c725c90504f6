"""Functions from tables against plain loops."""

from __future__ import annotations

from pathlib import Path

from tests.c.fixed.kernel_check import check_ops, needs_gcc
from tests.c.fixed.random_ops import TYPES, Random


@needs_gcc
def test_all_types(tmp_path: Path) -> None:
    r = Random(17)
    for x in TYPES:
        for y in TYPES:
            r.lookup(x, y)
    check_ops(r, tmp_path)

"""The page for users lists what the code has."""

from __future__ import annotations

import re
from pathlib import Path

from nnkit.c.float.catalogue import ONNX_OPS
from nnkit.custom_ops import CUSTOM_OPS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "cpu_segments.md").read_text(encoding="utf-8")


def test_the_page_lists_every_operator() -> None:
    listed = PAGE.split("\nONNX: ")[1].split(";")[0]
    assert re.findall(r"`(\w+)`", listed) == sorted(ONNX_OPS)
    table = PAGE.split("| operator |")[1]
    assert re.findall(r"^\| `(\w+)` \|", table.split("The files in")[0], re.MULTILINE) == list(CUSTOM_OPS)

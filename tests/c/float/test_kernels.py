"""What holds for all float kernels."""

from __future__ import annotations

import re
from pathlib import Path


def test_the_code_has_no_heap_no_recursion_and_no_output() -> None:
    folder = Path(__file__).resolve().parents[3] / "nnkit" / "c" / "float"
    sources = sorted(folder.glob("nnkit_*.c"))
    assert len(sources) > 15
    for file in sources:
        text = file.read_text()
        assert not re.search(r"\b(malloc|calloc|realloc|free\s*\(|alloca|printf|FILE)\b", text), file.name
        for name, body in re.findall(r"^\w[\w *]*?(\w+)\([^;{]*\)\n\{\n(.*?)^\}", text, re.S | re.M):
            assert not re.search(rf"\b{name}\(", body), f"{name} in {file.name} calls itself"

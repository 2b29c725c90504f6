"""The core knows no target: whatever is of one stands with it, or comes from its plugin object."""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from pathlib import Path

import nnkit
from nnkit.installation import TARGETS

CORE = Path(nnkit.__file__).parent

VENDORS = "greenwaves|pmsis|hisilicon|hi35[0-9]+|sophgo|tpu.?mlir|tpuc|bm1684|bm1688|cv18|bmodel|cvimodel|gxsdk"

ALLOWED = {
    ("quantize/fixed_point.py", "GAP8"): "the source of a formula",
    ("program/formats.py", "GAP8"): "the source of a formula",
}
"""Words that may stand in a file of the core, and why."""


def named() -> dict[tuple[str, str], str]:
    """By file and word of the core: the line that names a target or a vendor."""
    targets = [entry.name for entry in entry_points(group=TARGETS)]
    assert {"gap8", "nnie", "tpu", "onnx_qdq"} <= set(targets)
    # `int_tpu`, `TPU` and `gap8_reid` name one as well; the word "target" does not.
    words = re.compile(rf"(?<![a-z])(?:{'|'.join(sorted(targets))})(?![a-z])|{VENDORS}", re.IGNORECASE)
    lines = {}
    for path in sorted(CORE.rglob("*")):
        if not path.is_file() or path.parent.name == "__pycache__":
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            for word in words.findall(line):
                lines[path.relative_to(CORE).as_posix(), word] = line.strip()
    return lines


def test_no_file_of_the_core_names_a_target_or_a_vendor() -> None:
    assert {place: line for place, line in named().items() if place not in ALLOWED} == {}


def test_every_exception_is_needed() -> None:
    assert set(ALLOWED) <= set(named())


def test_a_target_is_never_asked_what_it_has() -> None:
    """What is optional has a default in the base class: `hasattr` and `getattr` hide a plugin's typo."""
    asked = re.compile(r"(has|get)attr\((build\.|[a-z_]*\.)?target\b")
    for path in CORE.rglob("*.py"):
        assert not asked.search(path.read_text(encoding="utf-8")), path

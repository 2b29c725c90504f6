"""Compiles an integer library as strict C90 with the compiler of this machine and compares it value by value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnkit.c.sources import c_environment, tidy_source
from nnkit.program import Program
from nnkit_ansi_c.runner import LibraryRunner


@dataclass(frozen=True)
class IntegerHostRunner(LibraryRunner):
    """Runs an integer library by a program that reads and writes stored integers."""

    flags: tuple[str, ...] = ("-O2",)

    def main_source(self, record: Mapping[str, Any], artifact: Path, folder: Path) -> Path:
        """`check.c`, written into the folder."""
        check = folder / "check.c"
        check.write_text(check_source(record), encoding="utf-8")
        return check

    def bound(self, program: Program, tensor: str) -> float:
        """Nothing may differ."""
        return 0.0


def check_source(record: Mapping[str, Any]) -> str:
    """The C of the program around the library. record: the artifact's description."""
    values = {
        "prefix": record["name"],
        "macro": record["name"].upper(),
        "inputs": record["inputs"],
        "outputs": record["outputs"],
        "regions": record.get("regions", []),
    }
    return tidy_source(c_environment("nnkit_ansi_c", "templates"), "integer_check.c.j2", values)

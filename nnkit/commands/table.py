"""`nnkit table`: ranges from a file of any known kind, written as another."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from nnkit.commands.common import print_json, print_line


def convert_command(source: Path, out: Path, *, to: Literal["nnkit", "tpu"], json: bool) -> None:
    """Read `source`, whatever its kind, and write its ranges to `out`."""
    from nnkit.quantize.tables import read_any_table, write_ranges

    found = read_any_table(source)
    write_ranges(found.ranges, out, to)
    if json:
        print_json({"from": found.kind, "to": to, "values": len(found.ranges), "out": str(out)})
        return
    print_line(f"{source} ({found.kind}) -> {out} ({to}): {len(found.ranges)} values")

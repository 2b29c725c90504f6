"""`nnkit table convert` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from nnkit.calibrate.tpu_table import read_tpu_table
from nnkit.cli import app
from nnkit.quantize.tables import read_any_table


def test_there_and_back(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in ("a.txt", "b.yaml", "c.txt"))
    first.write_text("# ours\nconv1 1.5000000 -1.5000000 0.2500000\nfc 2.0000000 -0.5000000 2.0000000\n")
    done = CliRunner().invoke(app, ["table", "convert", str(first), str(second)])
    assert done.exit_code == 0, done.output
    assert "2 values" in done.output
    assert read_any_table(second).kind == "nnkit"
    done = CliRunner().invoke(app, ["table", "convert", str(second), str(third), "--to", "tpu", "--json"])
    assert json.loads(done.output) == {"from": "nnkit", "to": "tpu", "values": 2, "out": str(third)}
    assert read_tpu_table(third) == read_tpu_table(first)

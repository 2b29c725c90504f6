"""Each benchmark runs on a tiny network and prints rows that make sense."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


def _benchmark(name: str, *arguments: str) -> Any:
    environment = {k: v for k, v in os.environ.items() if k != "NNKIT_SHARED"}
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", "--networks", "tiny", *arguments],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if "--json" in arguments else done.stdout


def test_instructions_of_every_implementation() -> None:
    rows = _benchmark(
        "gap8_instructions", "--arithmetics", "int16 wide,int8 wide", "--levels", "O2", "--layers", "--json"
    )
    totals = {row["arithmetic"]: row for row in rows if "layer" not in row}
    assert set(totals) == {"int16 wide", "int8 wide"}
    for arithmetic, total in totals.items():
        # 6 x 1 x 3 x 3 taps on 8x8, 1x1 and 3x3 of a Fire module on 4x4, and a 2x2 transposed convolution to 8x8.
        assert total["MACs"] == 3456 + 16 * (6 * 3 + 3 * 5 + 27 * 5 + 10 * 4 * 4)
        for implementation in ("nnkit -O2", "plain -O2", "careful -O2"):
            assert total[implementation] > 2  # a multiplication and an addition
        layers = [row for row in rows if "layer" in row and row["arithmetic"] == arithmetic]
        assert sum(row["MACs"] for row in layers) == total["MACs"]
        inside = sum(row["instructions"] for row in layers)
        assert inside <= total["instructions"] < 1.1 * inside
        assert total["plain/nnkit"] == pytest.approx(total["plain -O2"] / total["nnkit -O2"], rel=1e-3)


def test_instructions_as_a_table() -> None:
    text = _benchmark("gap8_instructions", "--arithmetics", "int16 running", "--levels", "O2")
    header, row = [line.split("  ") for line in text.strip().splitlines()[1:]]
    assert header[0] == "network"
    assert row[0].strip() == "tiny"


def test_memory_of_every_planner() -> None:
    [row] = _benchmark("gap8_memory", "--json")
    assert row["network"] == "tiny"
    assert row["lower bound"] <= row["auto"] <= min(row["general"], row["border"] or row["general"])
    for peer in ("by size", "by start"):
        assert row["lower bound"] <= row[peer] <= row["no reuse"]
    assert row["no reuse/auto"] == pytest.approx(row["no reuse"] / row["auto"], abs=1e-3)
    assert row["published"] is None


def test_allocator_on_lifetimes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hand-worked case: `a` and `c` share bytes, `b` lives with both; the peak is 8 + 4."""
    monkeypatch.syspath_prepend(str(REPOSITORY))
    from benchmarks.gap8_memory import lifetimes_row

    path = tmp_path / "case.csv"
    path.write_text("id,lower,upper,size\na,0,2,8\nb,1,3,4\nc,2,4,8\n")
    row = lifetimes_row(path)
    assert (row["peak"], row["lower bound"], row["certificate"], row["buffers"]) == (12, 12, "bound", 3)
    assert row["by size/bound"] == 1.0


def test_simulator_and_its_peers() -> None:
    rows = _benchmark("simulator", "--repeats", "1", "--no-runs", "--json")
    times = {row["implementation"]: row for row in rows}
    assert times["nnkit simulator"]["time/simulator"] == 1.0
    assert times["plain C, host -O2"]["ms"] >= 0
    assert times["ONNX Runtime float, 1 thread"]["ms"] >= 0
    assert times["int64 numpy"]["ms"] is None  # a transposed convolution: not covered, and said so


def test_plain_code_that_computes_something_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPOSITORY))
    from benchmarks.building import Workshop
    from benchmarks.networks import available
    from benchmarks.plain_run import run_plain
    from nnkit.simulate import simulate

    built = Workshop(tmp_path).program(available(tmp_path, ["tiny"])[0], "precision: int16")
    expected = simulate(built.program, built.inputs)
    counts = run_plain(
        built.program, built.inputs, expected, tmp_path / "a", style="plain", machine="host", optimisation="-O1"
    )
    assert set(counts) == {op.name for op in built.program.ops}
    last = built.program.ops[-1].output
    with pytest.raises(SystemExit, match=r"1 of 4 values .* differ"):
        run_plain(
            built.program,
            built.inputs,
            {**expected, last: expected[last] + np.eye(4)[2].reshape(expected[last].shape)},
            tmp_path / "b",
            style="careful",
            machine="host",
            optimisation="-O1",
        )


def test_unknown_network_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gap8_memory", "--networks", "nothing"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "no network nothing here" in done.stderr

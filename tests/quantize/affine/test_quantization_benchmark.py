"""The quantisation benchmark runs on a real network and its rows make sense."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]


def test_integer_program_is_no_worse_than_the_peer_on_the_digits(shared_dir: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.quantization", "--networks", "digits", "--no-fixed", "--json"],
        cwd=REPOSITORY,
        env={**os.environ, "NNKIT_SHARED": str(shared_dir)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    decibels = {row["method"]: float(row["SQNR dB"]) for row in json.loads(done.stdout)}
    assert decibels["nnkit u8/s8 MSE, per channel, bias correction"] > decibels["ONNX Runtime MinMax, per channel"]
    plain = "nnkit u8/s8 MSE, per channel, bias correction"
    assert decibels["nnkit u8/s8 MSE, per channel, balanced, refined ranges, bias correction"] > decibels[plain]
    for ours, theirs in (
        ("nnkit u16/s8 MSE, per channel, bias correction", "ONNX Runtime A16W8, per channel"),
        ("nnkit u16/s16 MSE, per channel, bias correction", "ONNX Runtime A16W16, per channel"),
    ):
        assert decibels[ours] > decibels[theirs]
    # Published figure of the peer on these arrays: 37.5 dB.
    assert abs(decibels["ONNX Runtime MinMax, per channel"] - 37.5) < 0.3

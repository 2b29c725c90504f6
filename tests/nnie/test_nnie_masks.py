"""Masks of attention on the NNIE, whose formats have no infinity."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from small_project import make_build, write_project

from nnkit import pipeline
from tests.end_to_end.networks import Net


def test_what_a_mask_blocks_is_finite_and_comes_to_nothing(tmp_path: Path) -> None:
    path = write_project(tmp_path)
    path.write_text(
        path.read_text().replace(
            "gap8: {}", "nnie: {chip: hi3516cv500, outside_limits: custom, precision_table: false}"
        )
    )
    net = Net((1, 1, 40, 40))
    mask = np.where(np.arange(40) < 30, 0, -np.inf).astype(np.float32).reshape(1, 1, 1, 40)
    masked = net.node("Add", [net.conv("x", 4), net.constant(mask, "mask")], 4)
    net.save(tmp_path / "net.onnx", net.node("Softmax", [masked], 4, axis=-1))
    outcome = pipeline.run(make_build(path, target="nnie"), tmp_path / "out")
    report = json.loads((outcome.folder / "report.json").read_text())
    assert report["status"] != "failed"
    assert "finite_mask" in {rewrite["name"] for rewrite in report["rewrites"]}
    verdicts = report["verify"]["program_vs_artifact"]
    assert verdicts
    assert all(each["mismatches"] == 0 for each in verdicts)

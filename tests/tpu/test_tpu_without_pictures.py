"""A network alone, without pictures: F16 and BF16 need no ranges, so it is built and compared on drawn inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
from nnkit_command import run_nnkit
from small_project import write_project

from nnkit_tpu.toolchain import Toolchain


def test_floats_on_a_tpu_need_no_pictures(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    write_project(tmp_path, images=4).unlink()
    command = ("net.onnx", "-t", "cv181x")
    refused = run_nnkit("check", *command, cwd=tmp_path)
    assert (refused.returncode, "no calibration images" in refused.stderr) == (2, True), "integers need ranges"
    done = run_nnkit("run", *command, "--set", "targets.tpu.precision=bf16", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "on 16 drawn inputs" in done.stdout
    assert "accuracy on real data and the ranges of real values are not" in done.stdout
    build = tmp_path / "out/net/tpu"
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    given = np.load(build / "verify/0_x_float.npy")
    (kept,) = (np.load(path) for path in (build / "verify").glob("0_*.npy") if not path.name.startswith("0_x"))
    (computed,) = session.run(None, {"x": given})
    np.testing.assert_allclose(kept.ravel(), computed.ravel(), atol=np.abs(computed).max() / 2**6)

"""Ctrl-C and SIGTERM while the compiler works: the run ends, and the compiler with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from nnkit_tpu.toolchain.wheel import VERSION

RECIPE = """nnkit: 1
name: net
model: {path: net.onnx, inputs: {x: {calibration: {images: x.npy}}}}
targets:
  tpu: {chip: bm1684x, toolchain: path}
verify: {images: x.npy}
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_compiler_ends_with_the_run(tmp_path: Path, number: signal.Signals) -> None:
    compiler = tmp_path / "bin" / "tpuc-opt"
    compiler.parent.mkdir()
    compiler.write_text(f"#!/bin/sh\n# v{VERSION}-20260831\necho $$ >> {tmp_path}/pids\nexec sleep 600\n")
    compiler.chmod(0o755)
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    shapes = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, 8, 8]) for name in "xy"]
    graph = helper.make_graph(nodes, "net", shapes[:1], shapes[1:])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "net.onnx"
    )
    np.save(tmp_path / "x.npy", np.ones((1, 3, 8, 8), np.float32))
    (tmp_path / "recipe.yaml").write_text(RECIPE, encoding="utf-8")
    environment = {**os.environ, "PATH": f"{compiler.parent}:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "nnkit", "run", "recipe.yaml", "--no-cache", "--trust"]
    run = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # which a shell ignores in the background
    )
    pids = tmp_path / "pids"
    while run.poll() is None and not (pids.exists() and len(pids.read_text().split()) == 2):  # released and traced
        time.sleep(0.05)
    run.send_signal(number)
    _, said = run.communicate(timeout=120)
    assert run.returncode == 130, said
    assert "interrupted; the last good build is unchanged" in said
    for pid in map(int, pids.read_text().split()):
        _wait_for_the_end(pid)
    assert not list((tmp_path / "out").rglob("artifact"))


def _wait_for_the_end(pid: int) -> None:
    """A process that was killed is there until the system has taken it away, which a busy one does when it can."""
    for _ in range(600):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail(f"process {pid} is still there a minute after the run has ended")

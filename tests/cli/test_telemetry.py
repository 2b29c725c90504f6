"""Libraries tell nobody what is built."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from fuzz.builds import write_project


def test_onnx_runtime_keeps_no_events(tmp_path: Path) -> None:
    """With telemetry it writes `.ses` among the temporary files, and a data base in the user's cache folder."""
    write_project(tmp_path)
    for name in ("tmp", "home"):
        (tmp_path / name).mkdir()
    left_out = ("XDG_CACHE_HOME", "ORT_DISABLE_TELEMETRY")
    own = {name: value for name, value in os.environ.items() if name not in left_out}
    own |= {"TMPDIR": str(tmp_path / "tmp"), "HOME": str(tmp_path / "home"), "NNKIT_CACHE": str(tmp_path / "cache")}
    start = "from nnkit.cli import main; main()"
    command = [sys.executable, "-c", start, "plan", str(tmp_path / "recipe.yaml")]
    subprocess.run(command, env=own, check=True, capture_output=True, cwd=tmp_path)
    assert not (tmp_path / "tmp" / ".ses").exists()
    assert not list((tmp_path / "home").rglob("*onnxruntime*"))

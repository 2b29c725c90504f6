"""Worker processes, their fork server and the resource tracker in a folder full of hostile files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.hostile import AVAILABLE, Watch, fill

_WORKS = """
import operator, os
from nnkit.children.workers import start_resource_tracker
from nnkit.executors import fork_server
from nnkit.executors.local import Processes

if __name__ == "__main__":
    os.environ["LD_LIBRARY_PATH"] = ":"  # as `import cv2` leaves it
    start_resource_tracker()
    with fork_server.starting({}, ("numpy",)):
        pass
    print(sorted(Processes(1).map(operator.add, 1, [1, 2])))
"""


@pytest.mark.skipif(not AVAILABLE, reason="watches folders on Linux")
@pytest.mark.parametrize("flags", [[], ["-E"]])
def test_workers_import_nothing_of_the_current_folder(flags: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "hostile"
    folder.mkdir()
    fill(folder)
    script = tmp_path / "works.py"
    script.write_text(_WORKS)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with Watch([folder]) as watch:
        command = [sys.executable, *flags, str(script)]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == ("[(0, 2), (1, 3)]\n", "")
        assert watch.opened() == []

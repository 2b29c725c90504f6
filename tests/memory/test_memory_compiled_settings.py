"""numba's settings in the current folder are not read: they name folders of machine code, and modules."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba")

_SETTLED = """
from nnkit.memory.compiled import leave_out_settings
leave_out_settings()
from numba.core import config
config.reload_config()
print(config.DEVELOPER_MODE)
"""


def test_settings_of_the_current_folder_are_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "current"
    folder.mkdir()
    (folder / ".numba_config.yaml").write_text("developer_mode: 1\n")
    script = tmp_path / "packs.py"
    for text, said in ((_SETTLED, "0"), ("from numba.core import config\nprint(config.DEVELOPER_MODE)", "1")):
        script.write_text(text)
        done = subprocess.run(
            [sys.executable, str(script)], cwd=folder, env=os.environ, capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == [said]

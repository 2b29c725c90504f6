"""What is said where no command is named."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("words", [(), ("package",)], ids=["nnkit", "package"])
def test_no_command_gives_the_help_and_no_error(words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nnkit", *words], capture_output=True, text=True, check=False, timeout=120
    )
    text = done.stdout + done.stderr
    assert "Usage: " in text
    assert "Commands" in text or "From a model" in text
    assert "explain NK" not in text
    assert done.returncode == 2

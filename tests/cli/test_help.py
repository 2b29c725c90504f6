"""What is said where no command is named."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from nnkit_command import run_nnkit


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


@pytest.mark.parametrize(
    ("words", "usage"),
    [(["--help"], "Usage: nnkit [OPTIONS] COMMAND ..."), (["run", "--help"], "Usage: nnkit run RECIPE... [OPTIONS]")],
    ids=["nnkit", "run"],
)
def test_help_needs_no_library_that_takes_longer_than_the_page(words: list[str], usage: str) -> None:
    """Typer imports pydantic itself, for the options of a command."""
    heavy = {"rich", "numpy", "onnx"} | ({"pydantic"} if words == ["--help"] else set())
    code = (
        f"import sys; sys.argv = ['nnkit', *{words}]\n"
        "from nnkit.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        f"heavy = {heavy} & {{name.partition('.')[0] for name in sys.modules}}\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == usage
    assert "-h, --help " in done.stdout


def test_usage_names_the_command_as_it_was_called() -> None:
    environment = {**os.environ, "NNKIT_CALLED_AS": "../nnkit/dev"}
    said = run_nnkit("check", "--nothing", env=environment).stderr
    assert "fix: write ../nnkit/dev check RECIPE... [OPTIONS]; `../nnkit/dev check -h` lists its options" in said
    assert "../nnkit/dev explain NK211" in said
    assert run_nnkit("help", "check", env=environment).stdout.startswith("Usage: ../nnkit/dev check RECIPE")
    assert "nnkit/dev" not in run_nnkit("--show-completion", "bash", env=environment).stdout

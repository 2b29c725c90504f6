"""The tutorial does what it says: its commands are run in order, and what it shows is what comes out.

Numbers are left out of the comparison where machines and versions of tools differ in them: times, digests,
instructions and the last digits of accuracies.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nnkit.cli import main

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "tutorial.md"
TOOLS = ("cc", "make", "riscv64-unknown-elf-gcc", "qemu-system-riscv32")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def steps() -> list[tuple[str, list[str]]]:
    """Each command with the lines shown behind it."""
    found: list[tuple[str, list[str]]] = []
    for line in "".join(blocks("console")).splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def without_varying_numbers(line: str) -> str:
    """Figures that must agree stay: bytes, values, mismatches, shapes and formats."""
    line = re.sub(r"\b[0-9a-f]{64}\b", "_", line)
    line = re.sub(r"[0-9,]+ (instructions|files)", r"_ \1", line)
    line = re.sub(r"-?\b[0-9]+\.[0-9]+\b|\b[0-9]+%", "_", line)  # not the s16.12 of a format
    return " ".join(line.split())


def run(command: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """The exit code of a line of the page and all that it wrote; nnkit in this process, which is quicker."""
    words = shlex.split(command)
    if words[0] == "nnkit":
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        assert isinstance(code, int)
    else:
        line = f"{shlex.quote(sys.executable)} {command.removeprefix('python ')}" if words[0] == "python" else command
        code = subprocess.run(line, shell=True, check=False).returncode
    return code, "".join(capfd.readouterr())


@pytest.mark.skipif(any(shutil.which(tool) is None for tool in TOOLS), reason=f"needs {', '.join(TOOLS)}")
def test_every_command_gives_what_is_shown_and_the_folder_holds_what_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "docs").symlink_to(REPOSITORY / "docs")
    monkeypatch.chdir(work)
    monkeypatch.setenv("NNKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    commands = steps()
    assert len(commands) > 15
    (recipe,) = blocks("yaml")
    for command, shown in commands:
        code, said = run(command, capfd, monkeypatch)
        printed = {without_varying_numbers(line) for line in said.splitlines()}
        missing = [line for line in shown if line.strip() != "..." and without_varying_numbers(line) not in printed]
        assert missing == [], f"{command}\n{said}"
        assert "Traceback" not in said
        if not any(line.startswith("error:") for line in shown) and not command.startswith("nnkit compare"):
            assert code == 0, f"{command}\n{said}"
        if (work / "shapes").is_dir():
            (work / "shapes/recipe.yaml").write_text(recipe)

    # The page's table of the build folder, and what docs/how_it_works.md adds.
    listed = re.findall(r"^\| ((?:`[^`]+`(?:, )?)+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    named = {name.rstrip("/") for cell in listed for name in re.findall(r"`([^`]+)`", cell)}
    named |= {"memory_l1.svg", "memory_l3.svg", "page.json", "plan.json", "program.nnkit", "recipe.yaml", "run.json"}
    assert {path.name for path in (work / "out/shapes/gap8").iterdir()} == named

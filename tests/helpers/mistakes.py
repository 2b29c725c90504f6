"""Mistakes that users make: what is said of each, and that the remedy mends it when it is followed."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from small_project import write_project

from nnkit.cli import main

Change = Callable[[Path], None]
DOCUMENTED = (1, 2, 3, 4, 5, 6)


@dataclass(frozen=True)
class Mistake:
    """A line of the recipe written wrong, and how the remedy has it.

    before: text of the small project's recipe. wrong: in its place. place: where the message has to say it is, as
    `line:column`, or a file's name. reason, remedy: parts of what is said. right: what stands there when the remedy
    is followed. prepare: done to the project's folder beforehand. command: without the recipe.
    """

    name: str
    before: str
    wrong: str
    place: str
    reason: str
    remedy: str
    right: str
    prepare: Change | None = None
    command: tuple[str, ...] = ("check", "recipe.yaml")


def ended(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    """Exit code and stderr of a command, in this process."""
    monkeypatch.setattr(sys, "argv", ["nnkit", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    code = caught.value.code
    return int(code) if isinstance(code, int) else 0, re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().err)


def told(code: int, said: str) -> None:
    """An error as it has to be: a documented exit code, a remedy, a code to look up, nothing of our insides."""
    assert code in DOCUMENTED, said
    assert "Traceback" not in said
    assert "a bug in nnkit" not in said
    assert re.search(r"nnkit explain NK\d{3}", said), said


def check_mistake(
    mistake: Mistake, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The mistake is told with its place, reason and remedy; the project with the remedy followed is taken."""
    monkeypatch.chdir(folder)
    path = write_project(folder)
    if mistake.prepare is not None:
        mistake.prepare(folder)
    text = path.read_text()
    assert text.count(mistake.before) == 1, mistake.before
    path.write_text(text.replace(mistake.before, mistake.wrong))
    code, said = ended(mistake.command, monkeypatch, capsys)
    told(code, said)
    place = f"recipe.yaml:{mistake.place}: " if re.match(r"[0-9]+(:|$)", mistake.place) else mistake.place
    for part in (place, mistake.reason, "fix: ", mistake.remedy):
        assert part in said, f"{part!r} is not in\n{said}"
    path.write_text(text.replace(mistake.before, mistake.right))
    code, said = ended(mistake.command, monkeypatch, capsys)
    assert code == 0, said

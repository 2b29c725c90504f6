"""Command lines that the parser refuses: one form for all errors, with what to write instead."""

from __future__ import annotations

import re
import sys

import pytest
from mistakes import ended, told

from nnkit.cli import app
from nnkit.cli.usage_errors import _OTHER_WORDS


@pytest.mark.parametrize(
    ("line", "reason", "remedy"),
    [
        ("bulid recipe.yaml", "there is no command 'bulid'", "did you mean 'build'? `nnkit run` does that"),
        ("compile recipe.yaml", "there is no command 'compile'", "`nnkit run` does it"),
        ("chek recipe.yaml", "there is no command 'chek'", "did you mean 'check'"),
        ("package verfy", "there is no command 'verfy'", "did you mean 'verify'?"),
        ("help pln", "there is no command 'pln'", "did you mean 'plan'"),
        ("run", "RECIPE is missing", "write nnkit run RECIPE... [OPTIONS]"),
        ("bench build", "--on is missing", "write nnkit bench BUILD --on BOARD [OPTIONS]"),
        ("run recipe.yaml --jbs 2", "there is no option --jbs", "did you mean '--jobs'?"),
        ("run recipe.yaml --bogus", "there is no option --bogus", "fix: write nnkit run RECIPE... [OPTIONS]"),
        ("run recipe.yaml --jobs many", "--jobs: this is not a whole number", "write nnkit run"),
        ("run recipe.yaml --target", "option '--target' requires an argument", "write --target VALUE"),
        ("report build --json=4", "option '--json' does not take a value", "leave the value out"),
        ("doctor here now", "here now: not expected here", "write nnkit doctor [OPTIONS]"),
    ],
)
def test_the_parser_s_errors_have_the_form_of_all_others(
    line: str, reason: str, remedy: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NNKIT_CALLED_AS", "nnkit")
    code, said = ended(tuple(line.split()), monkeypatch, capsys)
    told(code, said)
    assert code == 2
    assert said.startswith(f"error: {reason}")
    assert remedy in said
    assert not re.search(r"Error:|Usage:|Try ", said)


def test_words_of_other_tools_lead_to_commands_that_there_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["nnkit"])
    with pytest.raises(SystemExit):
        app(["--help"])
    shown = capsys.readouterr().out
    for word, command in _OTHER_WORDS.items():
        assert re.search(rf"^  {command} ", shown, re.MULTILINE), command
        assert not re.search(rf"^  {word} ", shown, re.MULTILINE), word

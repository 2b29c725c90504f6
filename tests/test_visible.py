"""What a terminal would obey is never written raw, whatever it stands in."""

from __future__ import annotations

import json
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnkit.errors import BuildsFailedError, ExitCode, NnkitError, SeveralError, UserFileError
from nnkit.external_tool import ToolRun
from nnkit.visible import joined, visible, visible_json, visible_lines, with_lines

EVIL = (
    "\x1b[31mred\x07\r\x9b2J\u202eback\u2066\u2028line\nerror: forged\n  error: forged\n  fix: run evil\x7f\t\ud800"
)


def obeyed(text: str) -> list[str]:
    """Characters of Unicode's categories of control, format, surrogates, and separators of lines and paragraphs."""
    return [each for each in text if unicodedata.category(each) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


def test_exactly_what_unicode_says_is_escaped() -> None:
    for number in range(sys.maxunicode + 1):
        one = chr(number)
        shown = visible(one)
        if obeyed(one):
            assert shown.isascii(), hex(number)
            assert shown.encode().decode("unicode_escape") == one
        else:
            assert shown == one


def test_a_line_stays_one_line_and_is_escaped_once() -> None:
    shown = visible(EVIL)
    assert not obeyed(shown)
    assert shown.startswith(r"\x1b[31mred\x07\r\x9b2J\u202eback")
    assert visible(str(shown)) == shown
    assert visible_lines("a\x1b\nb") == "a\\x1b\nb"


@given(st.text(), st.text())
def test_no_error_holds_more_lines_than_it_was_made_of(text: str, where: str) -> None:
    lines = str(NnkitError(text, where=where, remedy="do it")).split("\n")
    assert not obeyed("".join(lines))
    assert len(lines) == 2
    assert lines[1] == "  fix: do it"


def test_nothing_in_an_error_poses_as_a_line_of_ours() -> None:
    error = UserFileError(f"a name {EVIL}", where=EVIL, remedy=f"rename {EVIL}")
    several = SeveralError([error, error], where=EVIL)
    failed = BuildsFailedError([str(error), f"key: {EVIL}"], [ExitCode.USER], remedy=EVIL)
    tool = ToolRun("gcc", 1, 1.0, f"net.c:3: {EVIL}", EVIL).error(remedy=EVIL)
    for each in (error, several, failed, tool):
        lines = str(each).split("\n")
        assert not obeyed("".join(lines))
        assert not any(line.lstrip().startswith(("error:", "fix: run evil")) for line in lines)


def test_lines_of_ours_stay_lines() -> None:
    listed = with_lines("2 layers:", ["a (Conv): no", "b\n  error: forged", "  fix: c"])
    assert listed == "2 layers:\n  a (Conv): no\n  b\\n  error: forged\n  |   fix: c"
    assert str(NnkitError(listed, remedy=with_lines("try:", ["x"], indent="    "))) == f"{listed}\n  fix: try:\n    x"
    inner = SeveralError([UserFileError("one", remedy="do"), UserFileError("two")], where="x")
    assert str(inner) == "x: 2 things are wrong\n  one\n    fix: do\n  two"


@given(st.text())
def test_json_stays_the_same_data(text: str) -> None:
    written = json.dumps({text: [text, EVIL]}, ensure_ascii=False, indent=2)
    shown = visible_json(written)
    assert json.loads(shown) == json.loads(written)
    assert set(obeyed(shown)) <= {"\n"}


@pytest.mark.parametrize("text", ["größe", "顔/特徴", "🙂", "a b"])
def test_letters_of_all_people_stay(text: str) -> None:
    assert visible(text) == text
    assert visible_json(f'"{text}"') == f'"{text}"'


def test_what_is_joined_to_a_text_of_several_lines_leaves_its_lines() -> None:
    text = with_lines("first:", ["a\nb", "c"])
    shown = joined(text, "; then\nmore:")
    assert shown == "first:\n  a\\nb\n  c; then\\nmore:"
    assert UserFileError("r", remedy=with_lines(shown, ["d"])).remedy.split("\n")[-1] == "  d"

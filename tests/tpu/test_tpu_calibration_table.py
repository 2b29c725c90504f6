"""The TPU compiler's calibration table: its lines, what comes back, and mistakes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnkit.calibrate.stats import ValueRange
from nnkit.errors import ModelError, RecipeError, UserFileError
from nnkit_tpu.calibration_table import format_table, read_table

NUMBERS = st.floats(-1e4, 1e4, allow_nan=False, width=32)


def test_a_line_is_name_threshold_min_max_with_seven_decimals() -> None:
    text = format_table({"conv1": ValueRange(-1.5, 0.25, -2.0, 3.0)}, comments=("64 images",))
    assert text.splitlines() == [
        "# 64 images",
        "# name threshold min max",
        "conv1 1.5000000 -1.5000000 0.2500000",
    ]


@given(st.dictionaries(st.from_regex(r"[A-Za-z0-9_./:]+", fullmatch=True), st.tuples(NUMBERS, NUMBERS), min_size=1))
def test_ranges_come_back_to_seven_decimals(numbers: dict[str, tuple[float, float]]) -> None:
    import tempfile

    ranges = {name: ValueRange(min(pair), max(pair), min(pair), max(pair)) for name, pair in numbers.items()}
    text = format_table(ranges)
    entry = re.compile(r"\S+ \d+\.\d{7} -?\d+\.\d{7} -?\d+\.\d{7}")
    assert all(line.startswith("#") or entry.fullmatch(line) for line in text.splitlines())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table"
        path.write_text(text)
        found = read_table(path)
    assert list(found) == list(ranges)
    for name, expected in ranges.items():
        assert found[name].low == pytest.approx(expected.low, abs=1.1e-7)
        assert found[name].high == pytest.approx(expected.high, abs=1.1e-7)


def test_threshold_clips_and_what_was_seen_stays(tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_text("# version\n\nx 2.0 -3.0 1.0\n#int4_th\nx 1.0 -3.0 1.0\n")
    assert read_table(path) == {"x": ValueRange(-2.0, 1.0, -3.0, 1.0)}


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("x 1 2\n", 1, "3 columns"),
        ("# c\nx 1 a 2\n", 2, "not a number"),
        ("x 1 nan 2\n", 1, "not finite"),
        ("x 1 2 1\n", 1, "min is above max"),
        ("x -1 0 1\n", 1, "negative"),
        ("x 1 0 1\nx 1 0 1\n", 2, "second time"),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, text: str, line: int, reason: str) -> None:
    path = tmp_path / "table"
    path.write_text(text)
    with pytest.raises(RecipeError, match=reason) as caught:
        read_table(path)
    assert caught.value.where == f"{path}:{line}"


def test_empty_missing_and_names_with_spaces(tmp_path: Path) -> None:
    with pytest.raises(UserFileError, match="does not exist"):
        read_table(tmp_path / "none")
    (tmp_path / "empty").write_text("# nothing\n")
    with pytest.raises(RecipeError, match="no lines"):
        read_table(tmp_path / "empty")
    with pytest.raises(ModelError, match="cannot hold this name"):
        format_table({"a b": ValueRange(0, 1, 0, 1)})

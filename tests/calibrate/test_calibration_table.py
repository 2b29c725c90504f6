"""The table: exact round trip, edits, and errors with file, line and column."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from nnkit.calibrate import CalibrationStats, ValueRange, write_table
from nnkit.calibrate.table import format_table, read_table_of
from nnkit.errors import ExitCode, NnkitError, RecipeError, UserFileError

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
RANGES = st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS).map(
    lambda n: ValueRange(min(n[:2]), max(n[:2]), min(n[2:]), max(n[2:]))
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def _stats(ranges: dict[str, ValueRange]) -> CalibrationStats:
    return CalibrationStats(ranges, "percentile", 100, "5f3c", percentile=99.99)


@settings(max_examples=100)
@given(st.dictionaries(NAMES, RANGES, max_size=4))
def test_round_trip_is_exact_for_any_name_and_number(
    tmp_path_factory: pytest.TempPathFactory, ranges: dict[str, ValueRange]
) -> None:
    path = tmp_path_factory.getbasetemp() / "table.yaml"
    write_table(_stats(ranges), path)
    assert len(path.read_text().splitlines()) == len(format_table(_stats({})).splitlines()) + len(ranges)
    again = read_table_of(path, list(ranges))
    assert dict(again.ranges) == ranges
    assert (again.method, again.images, again.graph_digest) == ("table", 100, "5f3c")


def test_another_yaml_reader_understands_it() -> None:
    ranges = {'layer "1"\\': ValueRange(-1.5, 2.25, -3.0, 4.0), "naïve: #2": ValueRange(0.0, 1e-7, 0.0, 1e20)}
    document = yaml.safe_load(format_table(_stats(ranges)))
    assert document["nnkit_calibration"] == 1
    assert document["percentile"] == 99.99
    assert [line["name"] for line in document["values"]] == list(ranges)
    found = {line["name"]: [float(line[key]) for key in list(line)[1:]] for line in document["values"]}
    assert found == {'layer "1"\\': [-1.5, 2.25, -3.0, 4.0], "naïve: #2": [0.0, 1e-7, 0.0, 1e20]}


def test_the_same_stats_give_the_same_bytes(tmp_path: Path) -> None:
    stats = _stats({"b": ValueRange(0.1, 0.2, 0.1, 0.2), "a": ValueRange(0.0, 1.0, 0.0, 1.0)})
    write_table(stats, tmp_path / "1")
    write_table(stats, tmp_path / "2")
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def _written(tmp_path: Path, *lines: str, header: str = "nnkit_calibration: 1\nvalues:\n") -> Path:
    path = tmp_path / "table.yaml"
    path.write_text(header + "".join(f"  - {line}\n" for line in lines))
    return path


A = "{name: a, low: -1, high: 2}"
B = "{name: b, low: 0, high: 1.5e-3, observed_low: -1, observed_high: 7}"


def test_a_table_written_by_hand(tmp_path: Path) -> None:
    found = read_table_of(_written(tmp_path, B, A), ["a", "b"])
    assert dict(found.ranges) == {"a": ValueRange(-1.0, 2.0, -1.0, 2.0), "b": ValueRange(0.0, 0.0015, -1.0, 7.0)}
    assert list(found.ranges) == ["a", "b"]  # in the network's order
    assert found.images == 0


def test_a_table_in_json(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_text(json.dumps({"nnkit_calibration": 1, "values": [{"name": "é", "low": 1e-7, "high": 3}]}))
    assert read_table_of(path, ["é"]).ranges["é"] == ValueRange(1e-7, 3.0, 1e-7, 3.0)


@pytest.mark.parametrize(
    ("line", "place", "reason", "remedy"),
    [
        ("{name: conv2, low: 0, high: 1}", "3:12", "no value 'conv2'", "did you mean 'conv1'"),
        ("{name: zzzzzz, low: 0, high: 1}", "3:12", "no value 'zzzzzz'", "remove the line"),
        ("{name: a, low: 2, high: 1}", "3:20", "low 2.0 is above high 1.0", "exchange"),
        ("{name: a, low: .nan, high: 1}", "3:20", "'.nan' is not a number", "write a number"),
        ("{name: a, low: nan, high: 1}", "3:20", "not finite", "finite"),
        ("{name: a, low: 0, high: inf}", "3:29", "not finite", "finite"),
        ("{name: a, low: 0, high: 1e999}", "3:29", "not finite", "finite"),
        ("{name: a, low: 1_0, high: 1}", "3:20", "not a number", "write a number"),
        ("{name: a, low: zero, high: 1}", "3:20", "'zero' is not a number", "write a number"),
        ("{name: a, low: [0], high: 1}", "3:20", "not a list", "one value"),
        ("{name: a, lo: 0, high: 1}", "3:15", "key 'lo' is not known", "did you mean 'low'"),
        ("{name: a, low: 0, low: 0, high: 1}", "3:23", "'low' is there twice", "keep one"),
        ("{name: a, low: 0}", "3:5", "no high", "name: ..., low:"),
        ("{low: 0, high: 1}", "3:5", "no name", "name: ..., low:"),
        ("a", "3:5", "a mapping belongs here", "name: ..."),
        ("{name: a, low: 0, high: 1, observed_low: 3}", "3:46", "observed_low 3.0 is above", "exchange"),
    ],
)
def test_a_wrong_line_is_named_by_its_place(tmp_path: Path, line: str, place: str, reason: str, remedy: str) -> None:
    path = _written(tmp_path, line)
    with pytest.raises(RecipeError) as caught:
        read_table_of(path, ["a", "conv1"])
    assert caught.value.where == f"{path}:{place}"
    assert reason in caught.value.reason
    assert remedy in caught.value.remedy
    assert caught.value.exit_code is ExitCode.USER


def test_a_value_twice_and_missing_values(tmp_path: Path) -> None:
    path = _written(tmp_path, A, A)
    with pytest.raises(RecipeError, match="'a' is there a second time") as caught:
        read_table_of(path, ["a"])
    assert caught.value.where == f"{path}:4:5"
    with pytest.raises(RecipeError, match="lacks 2 of the network's values: 'b', 'c'"):
        read_table_of(_written(tmp_path, A), ["a", "b", "c"])


@pytest.mark.parametrize(
    ("header", "place", "reason"),
    [
        ("values: []\n", ":1:1", "not a calibration table"),
        ("just text\n", ":1:1", "not a calibration table"),
        ("nnkit_calibration: 2\nvalues: []\n", ":1:20", "version 2"),
        ("nnkit_calibration: 1\n", ":1:1", "no list of values"),
        ("nnkit_calibration: 1\nvalues: 3\n", ":2:9", "no list of values"),
        ("nnkit_calibration: 1\nvalue: []\n", ":2:1", "key 'value' is not known"),
        ("nnkit_calibration: 1\nimages: -1\nvalues: []\n", ":2:9", "not a number of images"),
        ("nnkit_calibration: 1\nvalues: [{name: a\n", ":3:1", "not plain YAML"),
        ("", "", "the table is empty"),
        ("[" * 5000, "", "not plain YAML"),
    ],
)
def test_broken_tables(tmp_path: Path, header: str, place: str, reason: str) -> None:
    path = _written(tmp_path, header=header)
    with pytest.raises((RecipeError, UserFileError)) as caught:
        read_table_of(path, [])
    assert caught.value.where.startswith(f"{path}{place}")
    assert reason in caught.value.reason
    assert caught.value.remedy


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.yaml", tmp_path):
        with pytest.raises(UserFileError) as caught:
            read_table_of(path, [])
        assert caught.value.where == str(path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(NnkitError, match="UTF-8"):
        read_table_of(tmp_path / "binary", [])
    with pytest.raises(UserFileError, match="cannot be written"):
        write_table(_stats({}), tmp_path / "binary" / "table.yaml")


def test_smallest_and_largest_floats(tmp_path: Path) -> None:
    ends = ValueRange(-1.7976931348623157e308, 5e-324, -math.pi, math.nextafter(1.0, 2.0))
    write_table(_stats({"v": ends}), tmp_path / "t.yaml")
    assert read_table_of(tmp_path / "t.yaml", ["v"]).ranges["v"] == ends

"""The calibration table: ranges in a file that a person can read, edit and pin. One line a value.

YAML (of which JSON is a part, so a table may be written either way):

    nnkit_calibration: 1
    method: max
    images: 100
    graph: 5f3c...
    values:
      - {name: "conv1", low: -1.5, high: 2.25, observed_low: -1.5, observed_high: 2.25}
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from pathlib import Path

import yaml

from nnkit.calibrate.all_values import AllValues
from nnkit.calibrate.stats import CalibrationStats, ValueRange
from nnkit.did_you_mean import did_you_mean
from nnkit.errors import RecipeError
from nnkit.graph.model import Model
from nnkit.output_file import write_output
from nnkit.reading import read_yaml_node
from nnkit.recipe.problems import shown

VERSION = 1
MAX_TABLE_BYTES = 1 << 24
_HEADER = ("nnkit_calibration", "method", "percentile", "mse_bits", "images", "graph", "values")
_NUMBERS = ("low", "high", "observed_low", "observed_high")
_INTRODUCTION = """\
# Ranges of the network's values in real units. The quantiser uses low and high (with headroom, in 16 bits);
# observed_low and observed_high are the extremes that were seen, for information.
# Edit low and high as needed and pin the file in the recipe: calibration: {table: <this file>}.
"""


def write_table(stats: CalibrationStats, path: Path) -> None:
    """Write the table; the same stats give the same bytes, and `read_table` gives back the same ranges exactly.

    Raises:
        UserFileError: the file cannot be written.
    """
    write_output(path, format_table(stats), "the calibration table")


def format_table(stats: CalibrationStats) -> str:
    """The text of the table."""
    lines = [_INTRODUCTION + f"nnkit_calibration: {VERSION}", f"method: {stats.method}"]
    if stats.percentile is not None:
        lines.append(f"percentile: {stats.percentile!r}")
    if stats.mse_bits is not None:
        lines.append(f"mse_bits: {stats.mse_bits}")
    lines += [
        f"images: {stats.images}",
        f"graph: {_quoted(stats.graph_digest)}",
        "values:" if stats.ranges else "values: []",
    ]
    names = {name: _quoted(name) + "," for name in stats.ranges}
    widest = max((len(name) for name in names.values()), default=0)
    for name, value_range in stats.ranges.items():
        numbers = ", ".join(f"{key}: {getattr(value_range, key)!r}" for key in _NUMBERS)
        lines.append(f"  - {{name: {names[name]:<{widest}} {numbers}}}")
    return "\n".join(lines) + "\n"


def read_table(path: Path, model: Model) -> CalibrationStats:
    """A pinned table, which must hold exactly the values that calibrating the model would give.

    Returns, raises: as `read_table_of`. ModelError: ONNX Runtime refuses the network.
    """
    return read_table_of(path, AllValues(model).names)


def read_table_of(path: Path, expected: Collection[str] | None) -> CalibrationStats:
    """A pinned table for values of these names; None: of any names.

    Returns:
        Stats with method `table`, and the table's own percentile, number of images and graph digest (which may be
        another graph's: a table pins ranges by name).

    Raises:
        UserFileError: the file cannot be read.
        RecipeError: something in it is wrong; the place is `file:line:column`.
    """
    entries = _Entries(str(path))
    root = _compose(path)
    if not isinstance(root, yaml.MappingNode):
        raise entries.error(root, "this is not a calibration table", "a table begins with nnkit_calibration: 1")
    header = entries.mapping(root, _HEADER)
    if "nnkit_calibration" not in header:
        raise entries.error(root, "this is not a calibration table", "a table begins with nnkit_calibration: 1")
    version = entries.text(header["nnkit_calibration"])
    if version != str(VERSION):
        reason = f"this table has version {shown(version)}; this nnkit reads version {VERSION}"
        raise entries.error(header["nnkit_calibration"], reason, "calibrate again to write a new one")
    values = header.get("values")
    if not isinstance(values, yaml.SequenceNode):
        raise entries.error(values or root, "the table has no list of values", "add values: with one line a value")
    ranges: dict[str, ValueRange] = {}
    for item in values.value:
        name, value_range = entries.value_range(item, expected)
        if name in ranges:
            raise entries.error(item, f"'{shown(name)}' is there a second time", "keep one of the lines")
        ranges[name] = value_range
    if expected is not None:
        _check_complete(path, ranges, expected)
    return CalibrationStats(
        ranges={name: ranges[name] for name in (ranges if expected is None else expected)},
        method="table",
        percentile=entries.number(header["percentile"]) if "percentile" in header else None,
        images=entries.count(header["images"]) if "images" in header else 0,
        graph_digest=entries.text(header["graph"]) if "graph" in header else "",
    )


def _compose(path: Path) -> yaml.Node:
    root = read_yaml_node(
        path, what="the calibration table", remedy="compare with the lines beside it", limit_bytes=MAX_TABLE_BYTES
    )
    if root is None:
        raise RecipeError("the table is empty", where=str(path), remedy="calibrate to write a table")
    return root


def _check_complete(path: Path, ranges: Collection[str], expected: Iterable[str]) -> None:
    missing = [name for name in expected if name not in ranges]
    if missing:
        names = ", ".join(f"'{shown(name)}'" for name in missing[:10])
        more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
        raise RecipeError(
            f"the table lacks {len(missing)} of the network's values: {names}{more}",
            where=str(path),
            remedy="add a line for each, or calibrate again",
        )


class _Entries:
    """Reads YAML nodes of one file, with the place in every error."""

    def __init__(self, file: str) -> None:
        self._file = file

    def error(self, node: yaml.Node, reason: str, remedy: str) -> RecipeError:
        mark = node.start_mark
        return RecipeError(reason, where=f"{self._file}:{mark.line + 1}:{mark.column + 1}", remedy=remedy)

    def text(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self.error(node, "one value belongs here, not a list or mapping", "write one value")
        return str(node.value)

    def mapping(self, node: yaml.Node, known: Collection[str]) -> dict[str, yaml.Node]:
        """Keys to value nodes; keys outside `known` and doubled keys are refused."""
        if not isinstance(node, yaml.MappingNode):
            raise self.error(node, "a mapping belongs here", f"write {{{', '.join(f'{key}: ...' for key in known)}}}")
        values: dict[str, yaml.Node] = {}
        for key_node, value_node in node.value:
            key = self.text(key_node)
            if key not in known:
                hint = did_you_mean(key, known) or f"keys: {', '.join(known)}"
                raise self.error(key_node, f"the key '{shown(key)}' is not known", hint)
            if key in values:
                raise self.error(key_node, f"the key '{key}' is there twice", "keep one of them")
            values[key] = value_node
        return values

    def count(self, node: yaml.Node) -> int:
        text = self.text(node)
        if not (text.isascii() and text.isdecimal() and len(text) <= 18):
            raise self.error(node, f"'{shown(text)}' is not a number of images", "write a whole number")
        return int(text)

    def number(self, node: yaml.Node) -> float:
        text = self.text(node)
        try:
            value = float(text if text.isascii() and "_" not in text else "")
        except ValueError:
            raise self.error(node, f"'{shown(text)}' is not a number", "write a number, e.g. 1.5") from None
        if not math.isfinite(value):
            raise self.error(node, f"'{shown(text)}' is not finite", "a range ends at finite numbers")
        return value

    def value_range(self, node: yaml.Node, expected: Collection[str] | None) -> tuple[str, ValueRange]:
        """One line: a name of the network, and its range; omitted observed extremes are those of the range."""
        keys = self.mapping(node, ("name", *_NUMBERS))
        for key in ("name", "low", "high"):
            if key not in keys:
                raise self.error(node, f"this line has no {key}", "a line is {name: ..., low: ..., high: ...}")
        name = self.text(keys["name"])
        if expected is not None and name not in expected:
            hint = did_you_mean(name, expected) or "remove the line, or calibrate again"
            raise self.error(keys["name"], f"the network has no value '{shown(name)}'", hint)
        low, high = self.number(keys["low"]), self.number(keys["high"])
        if low > high:
            raise self.error(keys["low"], f"low {low!r} is above high {high!r}", "exchange them")
        observed_low = self.number(keys["observed_low"]) if "observed_low" in keys else low
        observed_high = self.number(keys["observed_high"]) if "observed_high" in keys else high
        if observed_low > observed_high:
            reason = f"observed_low {observed_low!r} is above observed_high {observed_high!r}"
            raise self.error(keys.get("observed_low", node), reason, "exchange them, or remove both")
        return name, ValueRange(low, high, observed_low, observed_high)


def _quoted(text: str) -> str:
    """A YAML double-quoted scalar on one line."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'

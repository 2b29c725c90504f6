"""Any file that says how large a network's values get, read as ranges, and ranges written for other tools.

Known kinds: nnkit's own table (YAML), an ONNX model in QDQ form, pinned fixed-point formats (JSON), and the tables of
vendors' tools that installed targets know. What a kind cannot say is not made up: pinned formats and QDQ scales give
the ranges of formats, which are at least as wide as what was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from nnkit.calibrate.qdq import read_qdq_ranges
from nnkit.calibrate.stats import CalibrationStats, ValueRange
from nnkit.calibrate.table import format_table, read_table_of
from nnkit.errors import NnkitError, UserFileError
from nnkit.output_file import write_output
from nnkit.program import Fixed
from nnkit.quantize.pinned import read_pinned_formats
from nnkit.reading import read_bytes, read_onnx
from nnkit.recipe.problems import shown

OWN, QDQ, PINNED = "nnkit", "qdq", "pinned"
"""The kinds that are no target's; the others have the name of their target."""


@dataclass(frozen=True)
class TableFormat:
    """The calibration table of a vendor's tool, as text. title: what messages call it.

    looks_like_one: whether a text, of which only the beginning is given, is such a table.
    read: raises UserFileError, RecipeError. write: the text; raises ModelError for a name that it cannot hold.
    """

    title: str
    looks_like_one: Callable[[str], bool]
    read: Callable[[Path], Mapping[str, ValueRange]]
    write: Callable[[Mapping[str, ValueRange]], str]


TableFormats: TypeAlias = Mapping[str, TableFormat]
"""By the target's name."""


@dataclass(frozen=True)
class RangeTable:
    """Ranges in real units by value name (by layer name for `pinned`), and the kind of file they came from."""

    kind: str
    ranges: Mapping[str, ValueRange]

    def __post_init__(self) -> None:
        object.__setattr__(self, "ranges", MappingProxyType(dict(self.ranges)))


def read_any_table(path: Path, formats: TableFormats = MappingProxyType({})) -> RangeTable:
    """Ranges from a file of any known kind, told by its content. formats: those of targets, beside nnkit's own.

    Raises:
        UserFileError: the file cannot be read, or is of no known kind.
        RecipeError, ModelError: something in it is wrong.
    """
    kind = _kind(path, formats)
    if kind == OWN:
        return RangeTable(kind, read_table_of(path, None).ranges)
    if kind == PINNED:
        return RangeTable(kind, pinned_ranges(path))
    return RangeTable(kind, _qdq(path) if kind == QDQ else formats[kind].read(path))


def pinned_ranges(path: Path) -> dict[str, ValueRange]:
    """What the output formats of pinned layers can hold, by layer name."""
    pinned = read_pinned_formats(path)
    ranges = {}
    for name, layer in pinned.layers.items():
        form = Fixed(pinned.bits, layer.output_frac)
        low, high = (2.0**-layer.output_frac * end for end in (form.qmin, form.qmax))
        ranges[name] = ValueRange(low, high, low, high)
    return ranges


def onto_table(
    ranges: Mapping[str, ValueRange], base: Mapping[str, ValueRange], outputs: Mapping[str, str]
) -> tuple[dict[str, ValueRange], list[str]]:
    """`base` with the ranges of another table where names agree, and that table's names that `base` has not.

    outputs: by layer name the value that it gives, for tables that name layers. What was seen stays as it was.
    """
    merged = dict(base)
    others = []
    for name, reach in ranges.items():
        value = name if name in base else outputs.get(name, "")
        if value not in base:
            others.append(name)
            continue
        merged[value] = ValueRange(reach.low, reach.high, base[value].observed_low, base[value].observed_high)
    return merged, others


def write_ranges(
    ranges: Mapping[str, ValueRange], path: Path, to: TableFormat | None, *, sent: Sequence[Path] = ()
) -> None:
    """Write ranges as nnkit's table (None) or as a vendor's.

    sent: folders whose links are not followed (see `nnkit.output_file`).

    Raises UserFileError where the file cannot be written, ModelError for a name that the kind cannot hold.
    """
    text = format_table(CalibrationStats(ranges, "table", 0, "")) if to is None else to.write(ranges)
    write_output(path, text, "the table", sent=sent)


def _kind(path: Path, formats: TableFormats) -> str:
    if path.suffix == ".onnx":
        return QDQ
    head = read_bytes(path, what="the table")[: 1 << 16]
    try:
        text = head.decode("utf-8-sig", errors="ignore" if len(head) == 1 << 16 else "strict")
    except UnicodeDecodeError as error:
        raise UserFileError(
            "this is neither text nor an ONNX file by name",
            where=str(path),
            remedy="give a calibration table, pinned formats (JSON), or a QDQ model whose name ends in .onnx",
        ) from error
    if "nnkit_calibration" in text:
        return OWN
    if text.lstrip().startswith("{"):
        return PINNED
    known = [name for name, each in formats.items() if each.looks_like_one(text)] or list(formats)
    if len(known) == 1:
        return known[0]
    titles = [each.title for each in formats.values()]
    raise UserFileError(
        "this is no table of a known kind",
        where=str(path),
        remedy=f"give {', '.join(['a table of nnkit', *titles])}, pinned formats (JSON), or a QDQ model",
    )


def _qdq(path: Path) -> dict[str, ValueRange]:
    model = read_onnx(path, what="the model", remedy="give a model in QDQ form")
    try:
        stored = read_qdq_ranges(model)
    except NnkitError:
        raise
    except Exception as error:  # onnx answers tensors of unknown types or without values with any exception
        raise UserFileError(
            "the model's scales and zero points cannot be read", where=str(path), remedy="export the model again"
        ) from error
    bad = [name for name, reach in stored.items() if not (isfinite(reach.low) and isfinite(reach.high))]
    if bad:
        raise UserFileError(
            f"the scale of '{shown(bad[0])}' is not finite", where=str(path), remedy="export the model again"
        )
    ranges = _by_value(stored, {name for node in model.graph.node for name in node.output})
    if not ranges:
        raise UserFileError(
            "the model has no QuantizeLinear nodes of 8 bits with one scale",
            where=str(path),
            remedy="give a model in QDQ form",
        )
    return ranges


def _by_value(ranges: Mapping[str, ValueRange], computed: Collection[str]) -> dict[str, ValueRange]:
    """nnkit's own exports compute `v.value` and store it as `v.q`: these are the network's value `v`."""
    by_value = {}
    for name, reach in ranges.items():
        value = name.removesuffix(".value")
        by_value[value if value != name and f"{value}.q" in computed else name] = reach
    return by_value

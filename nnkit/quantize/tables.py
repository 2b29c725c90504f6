"""Any file that says how large a network's values get, read as ranges, and ranges written for other tools.

Known kinds: nnkit's own table (YAML), the TPU compiler's calibration table, an ONNX model in QDQ form, and pinned
fixed-point formats (JSON). What a kind cannot say is not made up: pinned formats and QDQ scales give the ranges of
formats, which are at least as wide as what was seen.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias

from nnkit.calibrate.qdq import read_qdq_ranges
from nnkit.calibrate.stats import CalibrationStats, ValueRange
from nnkit.calibrate.table import format_table, read_table_of
from nnkit.calibrate.tpu_table import format_tpu_table, read_tpu_table
from nnkit.errors import UserFileError, cannot_be_written
from nnkit.program import Fixed
from nnkit.quantize.pinned import read_pinned_formats

TableKind: TypeAlias = Literal["nnkit", "tpu", "qdq", "pinned"]


@dataclass(frozen=True)
class RangeTable:
    """Ranges in real units by value name (by layer name for `pinned`), and the kind of file they came from."""

    kind: TableKind
    ranges: Mapping[str, ValueRange]

    def __post_init__(self) -> None:
        object.__setattr__(self, "ranges", MappingProxyType(dict(self.ranges)))


def read_any_table(path: Path) -> RangeTable:
    """Ranges from a file of any known kind, told by its content.

    Raises:
        UserFileError: the file cannot be read, or is of no known kind.
        RecipeError, ModelError: something in it is wrong.
    """
    kind = _kind(path)
    if kind == "nnkit":
        return RangeTable(kind, read_table_of(path, None).ranges)
    if kind == "tpu":
        return RangeTable(kind, read_tpu_table(path))
    if kind == "pinned":
        return RangeTable(kind, pinned_ranges(path))
    return RangeTable(kind, _qdq(path))


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
    for name, found in ranges.items():
        value = name if name in base else outputs.get(name, "")
        if value not in base:
            others.append(name)
            continue
        merged[value] = ValueRange(found.low, found.high, base[value].observed_low, base[value].observed_high)
    return merged, others


def write_ranges(ranges: Mapping[str, ValueRange], path: Path, kind: Literal["nnkit", "tpu"]) -> None:
    """Write ranges as nnkit's table or as the TPU compiler's.

    Raises UserFileError where the file cannot be written, ModelError for a name that the kind cannot hold.
    """
    if kind == "tpu":
        text = format_tpu_table(ranges)
    else:
        text = format_table(CalibrationStats(ranges, "table", 0, ""))
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise cannot_be_written(path, error, "the table") from error


def _kind(path: Path) -> TableKind:
    if path.suffix == ".onnx":
        return "qdq"
    try:
        head = path.read_bytes()[: 1 << 16]
    except OSError as error:
        raise UserFileError(
            f"the table cannot be read: {error.strerror or error}", where=str(path), remedy="check the path"
        ) from error
    try:
        text = head.decode("utf-8-sig", errors="ignore" if len(head) == 1 << 16 else "strict")
    except UnicodeDecodeError as error:
        raise UserFileError(
            "this is neither text nor an ONNX file by name",
            where=str(path),
            remedy="give a calibration table, pinned formats (JSON), or a QDQ model whose name ends in .onnx",
        ) from error
    if "nnkit_calibration" in text:
        return "nnkit"
    return "pinned" if text.lstrip().startswith("{") else "tpu"


def _qdq(path: Path) -> dict[str, ValueRange]:
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        model = onnx.load(path, load_external_data=False)
    except (OSError, DecodeError) as error:
        raise UserFileError(f"the model cannot be read: {error}", where=str(path), remedy="check the file") from error
    ranges = _by_value(read_qdq_ranges(model), {name for node in model.graph.node for name in node.output})
    if not ranges:
        raise UserFileError(
            "the model has no QuantizeLinear nodes of 8 bits with one scale",
            where=str(path),
            remedy="give a model in QDQ form",
        )
    return ranges


def _by_value(ranges: Mapping[str, ValueRange], computed: Collection[str]) -> dict[str, ValueRange]:
    """nnkit's own exports compute `v.value` and store it as `v.q`: these are the network's value `v`."""
    found = {}
    for name, reach in ranges.items():
        value = name.removesuffix(".value")
        found[value if value != name and f"{value}.q" in computed else name] = reach
    return found

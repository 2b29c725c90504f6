"""`nnkit table`: ranges from a file of any known kind, written as another, or put into a build's table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nnkit.commands.common import print_json, print_line
from nnkit.errors import UsageError, UserFileError, cannot_be_written

if TYPE_CHECKING:
    from nnkit.builds import BuiltFolder
    from nnkit.calibrate.stats import ValueRange

_NAMED = 5  # names that are told; `--json` has all


def convert_command(
    source: Path, out: Path, *, to: Literal["nnkit", "tpu", "pinned"], onto: Path | None, json: bool
) -> None:
    """Read `source`, whatever its kind, and write its ranges to `out`.

    onto: a build; its calibration table is written, with the ranges of `source` where names agree.
    """
    from nnkit.quantize.tables import read_any_table, write_ranges

    if to == "pinned":
        _write_pinned(source, out, onto, json)
        return
    if source.is_dir():
        source = source / "calibration.yaml"
    found = read_any_table(source)
    done: dict[str, Any] = {"from": found.kind, "to": to, "values": len(found.ranges), "out": str(out)}
    if onto is None:
        write_ranges(found.ranges, out, to)
    else:
        done |= _write_onto(found.ranges, onto, out, to)
    if json:
        print_json(done)
        return
    print_line(f"{source} ({found.kind}) -> {out} ({to}): {done['values']} values")
    if onto is not None:
        _say_what_matched(done, onto)


def _write_onto(
    ranges: Mapping[str, ValueRange], onto: Path, out: Path, to: Literal["nnkit", "tpu"]
) -> dict[str, Any]:
    from nnkit.builds import open_build
    from nnkit.quantize.tables import onto_table, read_any_table, write_ranges
    from nnkit.report.calibration_table import lines_read, with_ranges

    build = open_build(onto)
    path = onto / "calibration.yaml"
    base = read_any_table(path).ranges
    layers = {op.name: op.output for op in build.program.ops}
    merged, others = onto_table(ranges, base, layers)
    taken = len(ranges) - len(others)
    if not taken:
        raise UserFileError(
            f"none of its {len(ranges)} names is a value or a layer of the build, whose first value is "
            f"'{next(iter(base), '')}'",
            where=str(onto),
            remedy="give a table of the same network: names are compared as they are written",
        )
    if to == "tpu":
        write_ranges(merged, out, to)
    else:
        _write_text(out, with_ranges(path.read_text(encoding="utf-8"), merged))
    read = lines_read(path.read_text(encoding="utf-8"))
    changed = [name for name in merged if merged[name] is not base[name]]
    return {
        "values": len(merged),
        "taken": taken,
        "not_in_the_build": others,
        "kept": [name for name in base if name in read and name not in changed],
    }


def _say_what_matched(done: Mapping[str, Any], onto: Path) -> None:
    print_line(f"  taken    {done['taken']} ranges")
    for label, names, meaning in (
        ("kept", done["kept"], f"are read and keep the range of {onto}"),
        ("unknown", done["not_in_the_build"], "are no values or layers of the build and are left out"),
    ):
        if names:
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            print_line(f"  {label:<8} {len(names)} {meaning}: {', '.join(names[:_NAMED])}{more}")


def _write_pinned(source: Path, out: Path, onto: Path | None, json: bool) -> None:
    from nnkit.builds import open_build
    from nnkit.program.ops import Convolution
    from nnkit.quantize.pinned import format_pinned

    if not source.is_dir() or onto is not None:
        raise UsageError(
            "pinned formats are those of a build",
            where="--to pinned",
            remedy="name a build folder as TABLE, without --onto: nnkit table convert out/<name>/gap8 formats.json "
            "--to pinned",
        )
    build: BuiltFolder = open_build(source)
    if not any(isinstance(op, Convolution) for op in build.program.ops):
        raise UserFileError(
            "this build has no fixed-point convolution whose formats could be pinned",
            where=str(source),
            remedy="name a build for a fixed-point target, such as gap8",
        )
    text = format_pinned(build.program)
    _write_text(out, text)
    if json:
        print_json({"from": "build", "to": "pinned", "out": str(out)})
        return
    print_line(f"{source} (build) -> {out} (pinned formats)")


def _write_text(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise cannot_be_written(path, error, "the table") from error

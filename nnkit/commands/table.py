"""`nnkit table`: ranges from a file of any known kind, written as another, or put into a build's table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.commands.common import print_json
from nnkit.errors import UsageError, UserFileError
from nnkit.output_file import write_output
from nnkit.reading import check_plain_tree
from nnkit.terminal import print_line

if TYPE_CHECKING:
    from nnkit.builds import BuiltFolder
    from nnkit.calibrate.stats import ValueRange
    from nnkit.quantize.tables import TableFormat, TableFormats

_NAMED = 5  # names that are told; `--json` has all


def convert_command(source: Path, out: Path, *, to: str, onto: Path | None, json: bool) -> None:
    """Read `source`, whatever its kind, and write its ranges to `out`.

    to: `nnkit`, `pinned`, or a target whose vendor's tool has a table of its own.
    onto: a build; its calibration table is written, with the ranges of `source` where names agree.
    """
    from nnkit.builds import computing_with

    with computing_with(*(path for path in (source, onto) if path is not None and path.is_dir())):
        _convert(source, out, to=to, onto=onto, json=json)


def _convert(source: Path, out: Path, *, to: str, onto: Path | None, json: bool) -> None:
    from nnkit.did_you_mean import suggestion
    from nnkit.quantize.tables import OWN, PINNED, read_any_table, write_ranges

    formats = _formats()
    kinds = (OWN, PINNED, *formats)
    if to not in kinds:
        raise UsageError(
            f"no table of kind {to!r} can be written", where="--to", remedy=suggestion(to, kinds, "kinds")
        )
    if to == PINNED:
        _write_pinned(source, out, onto, json)
        return
    if source.is_dir():
        check_plain_tree(source, "a build")
        source = source / "calibration.yaml"
    table = read_any_table(source, formats)
    done: dict[str, Any] = {"from": table.kind, "to": to, "values": len(table.ranges), "out": str(out)}
    if onto is None:
        write_ranges(table.ranges, out, formats.get(to))
    else:
        done |= _write_onto(table.ranges, onto, out, formats.get(to))
    if json:
        print_json(done)
        return
    print_line(f"{source} ({table.kind}) -> {out} ({to}): {done['values']} values")
    if onto is not None:
        _say_what_matched(done, onto)


def _formats() -> TableFormats:
    """The tables of vendors' tools, by the target that knows them."""
    from nnkit.target import working_targets

    offered = {name: target.calibration_table() for name, target in working_targets()[0].items()}
    return {name: each for name, each in offered.items() if each is not None}


def _write_onto(ranges: Mapping[str, ValueRange], onto: Path, out: Path, to: TableFormat | None) -> dict[str, Any]:
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
    if to is not None:
        write_ranges(merged, out, to, sent=[onto])
    else:
        write_output(out, with_ranges(path.read_text(encoding="utf-8"), merged), "the table", sent=[onto])
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
    from nnkit.program import Convolution
    from nnkit.quantize.pinned import format_pinned

    if not source.is_dir() or onto is not None:
        raise UsageError(
            "pinned formats are those of a build",
            where="--to pinned",
            remedy="name a build folder as TABLE, without --onto: "
            "nnkit table convert out/<name>/<target> formats.json --to pinned",
        )
    build: BuiltFolder = open_build(source)
    if not any(isinstance(op, Convolution) for op in build.program.ops):
        raise UserFileError(
            "this build has no fixed-point convolution whose formats could be pinned",
            where=str(source),
            remedy="name a build for a target of power-of-two fixed point",
        )
    text = format_pinned(build.program)
    write_output(out, text, "the table", sent=[source])
    if json:
        print_json({"from": "build", "to": "pinned", "out": str(out)})
        return
    print_line(f"{source} (build) -> {out} (pinned formats)")

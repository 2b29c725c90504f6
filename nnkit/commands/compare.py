"""`nnkit compare`: two builds layer by layer, or two tensor files."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import Any

from nnkit.builds import computing_with, open_build
from nnkit.commands.common import print_json
from nnkit.distance import Distance, distance
from nnkit.errors import GateFailedError, UsageError, UserFileError
from nnkit.reading import is_broken_link
from nnkit.terminal import note_line, print_line

Row = tuple[str, Distance, str]
"""The name of a tensor, or of the layer that computes it; its distance, and what there is to say of it."""

_NAMED = 5  # values that one build has alone, in the note


def compare_command(first: Path, second: Path | None, *, json: bool, dumps: Path | None = None) -> None:
    """Print the distance of every tensor both sides have; differing values end with exit code 1.

    dumps: dumps of a vendor's compiler to compare the build with, instead of `second`. Their differences are
    what the report is asked for, and no failure.
    """
    builds = [path for path in (first, second) if path is not None and path.is_dir()]
    with computing_with(*builds):
        if dumps is not None:
            _print_rows(_dumps(first, second, dumps), json=json)
        else:
            _compare(first, second, json=json)


def _compare(first: Path, second: Path | None, *, json: bool) -> None:
    if second is None:
        raise UsageError("nothing to compare with", remedy="name a second build or file, or give --dumps DIR")
    for path in (first, second):
        if not path.exists():
            raise UserFileError(
                "the link leads nowhere" if is_broken_link(path) else "there is no such file or folder",
                where=str(path),
                remedy="name two build folders (out/<name>/<target>) or two tensor files",
            )
    if first.is_dir() != second.is_dir():
        raise UsageError("a build can only be compared with a build", remedy="name two build folders or two files")
    rows = _builds(first, second, json=json) if first.is_dir() else _files(first, second)
    if not first.is_dir():
        _print_rows(rows, json=json)
    different = [name for name, d, _ in rows if d.max_abs != 0.0]
    if different:
        what = "layers" if first.is_dir() else "tensors"
        raise GateFailedError(
            f"{len(different)} of {len(rows)} {what} differ, the first is {different[0]!r}", where=str(second)
        )


def _builds(first: Path, second: Path, *, json: bool) -> list[Row]:
    """Prints the table of two builds and gives its rows."""
    from nnkit.builds.two_builds import compare_builds

    comparison = compare_builds(open_build(first), open_build(second))
    for folder, values in ((first, comparison.only_first), (second, comparison.only_second)):
        if values:
            more = f" and {len(values) - _NAMED} more" if len(values) > _NAMED else ""
            note_line(f"note: values of {folder} alone: {', '.join(values[:_NAMED])}{more}")
    if json:
        print_json(
            [
                {
                    "name": pair.tensor,
                    "layer": pair.layer,
                    "a_sqnr_db": _finite(pair.first_db),
                    "b_sqnr_db": _finite(pair.second_db),
                    **pair.distance.as_json(),
                    "note": pair.formats,
                }
                for pair in comparison.pairs
            ]
        )
    else:
        width = max(len("layer"), *(len(pair.layer) for pair in comparison.pairs))
        print_line(f"{'':<{width}}  {'SQNR dB against float':>21}   {'':<10} B against A")
        print_line(f"{'layer':<{width}}  {'A':>10} {'B':>10}   {'cosine':>10} {'SQNR dB':>8} {'max abs':>10}  format")
        for pair in comparison.pairs:
            apart = pair.distance
            print_line(
                f"{pair.layer:<{width}}  {_decibels(pair.first_db):>10} {_decibels(pair.second_db):>10}   "
                f"{apart.cosine:>10.7f} {_decibels(apart.sqnr_db):>8} {apart.max_abs:>10.4g}  {pair.formats}"
            )
    return [(pair.layer, pair.distance, pair.formats) for pair in comparison.pairs]


def _decibels(value: float | None) -> str:
    if value is None:
        return "-"
    return "equal" if value == float("inf") else f"{value:.2f}"


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


def _print_rows(rows: list[Row], *, json: bool) -> None:
    if json:
        print_json([{"name": name, **d.as_json(), "note": note} for name, d, note in rows])
    else:
        width = max((len(name) for name, _, _ in rows), default=4)
        print_line(f"{'tensor':<{width}}  {'cosine':>10} {'SQNR dB':>9} {'max abs':>12}")
        for name, d, note in rows:
            sqnr = _decibels(d.sqnr_db)
            print_line(f"{name:<{width}}  {d.cosine:>10.7f} {sqnr:>9} {d.max_abs:>12.6g}  {note}".rstrip())


def _dumps(build: Path, second: Path | None, dumps: Path) -> list[Row]:
    """A build against the dumps of its target's compiler."""
    from nnkit.target import load_target, plugin_name, working_targets

    if second is not None:
        raise UsageError("--dumps takes the place of B", remedy="name one build and --dumps DIR")
    opened = open_build(build)
    name = plugin_name(str(opened.report["target"]))
    compare = load_target(name).dump_comparison()
    if compare is None:
        others = [other for other, target in working_targets()[0].items() if target.dump_comparison() is not None]
        raise UsageError(
            f"the target {name!r} has no dumps to compare with",
            remedy=f"--dumps is for builds of {', '.join(others) or 'no installed target'}",
        )
    compared = compare(build, opened.program, dumps)
    for problem in compared.problems:
        note_line(f"note: {problem}")
    if not compared.tensors:
        raise UserFileError("no dump belongs to this build", where=str(dumps), remedy="compile this build's artifact")
    return [(tensor, apart, "") for tensor, apart in compared.tensors]


def _files(first: Path, second: Path) -> list[Row]:
    left, right = _tensors(first), _tensors(second)
    if len(left) == len(right) == 1:
        right = dict(zip(left, right.values(), strict=True))
    names = [name for name in left if name in right]
    if not names:
        raise UsageError(
            "the two files have no tensor name in common",
            where=str(second),
            remedy="compare files of the same tensors",
        )
    rows: list[Row] = []
    for name in names:
        if left[name].size != right[name].size:
            raise UsageError(
                f"{name}: shapes {left[name].shape} and {right[name].shape} cannot be compared",
                where=str(second),
                remedy="compare files of the same tensors",
            )
        rows.append((name, distance(right[name], left[name]), ""))
    return rows


def _tensors(path: Path) -> dict[str, Any]:
    from nnkit.reading import read_arrays

    return read_arrays(path, what="the file", remedy="name a .npy or .npz file of numbers")

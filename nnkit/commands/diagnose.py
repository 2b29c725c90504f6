"""`nnkit diagnose`: where a build loses accuracy, layer by layer."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.api.build_inputs import load_samples
from nnkit.builds import BuiltFolder, computing_with, open_build
from nnkit.commands.common import print_json
from nnkit.errors import UserFileError
from nnkit.terminal import note_line, print_line

if TYPE_CHECKING:
    from nnkit.samples import Sample

_NAMED = 3  # layers that the last line names


def diagnose_command(folder: Path, *, images: list[str], calibration: list[str], count: int, json: bool) -> None:
    """A row for each layer, in the order of execution: what it adds by itself, and what its output has lost.

    images: globs of the inputs to measure on; empty: those that the build kept. calibration: globs of the calibration
    inputs, for the gap between both. count: samples of each.
    """
    with computing_with(folder):
        _diagnose(folder, images=images, calibration=calibration, count=count, json=json)


def _diagnose(folder: Path, *, images: list[str], calibration: list[str], count: int, json: bool) -> None:
    from nnkit.builds.two_builds import brief_format
    from nnkit.layer_error import LayerError, gap_db, ranks
    from nnkit.verify.layer_errors import layer_errors

    build = open_build(folder)
    network = build.model("restructured.onnx")
    samples = load_samples(build, images, count, "--images", _note) if images else _kept(build)
    errors = layer_errors(network, build.program, samples)
    seen: dict[str, LayerError] = {}
    if calibration:
        known = load_samples(build, calibration, count, "--calibration", _note)
        seen = {error.layer: error for error in layer_errors(network, build.program, known)}
    rank = ranks(errors)
    listed = {error.layer for error in errors}
    left_out = [op.name for op in build.program.ops if op.name not in listed]
    rows: list[dict[str, Any]] = [
        {
            "layer": error.layer,
            "value": error.value,
            "rank": rank.get(error.layer),
            "isolated_sqnr_db": error.isolated_db,
            "cumulative_sqnr_db": error.cumulative_db,
            **({"gap_db": gap_db(seen[error.layer], error)} if seen else {}),
            "clip_rate": error.clip_rate,
            "format": brief_format(build.program.tensors[error.value].format),
        }
        for error in errors
    ]
    if json:
        finite = [{key: None if value == inf else value for key, value in row.items()} for row in rows]
        print_json({"samples": len(samples), "layers": finite, "not_listed": left_out})
        return
    _print(rows, gap=bool(seen))
    weakest = sorted((row for row in rows if row["rank"] is not None), key=lambda row: int(row["rank"]))[:_NAMED]
    if weakest:
        named = ", ".join(f"{row['layer']} ({row['isolated_sqnr_db']:.1f} dB)" for row in weakest)
        print_line(f"weakest {'of these ' if left_out else ''}by themselves, on {len(samples)} inputs: {named}")
    if left_out:
        diagnosed = "diagnosis" in (build.report.get("details") or ())
        there = "; report.json has them (details.diagnosis)" if diagnosed else ""
        print_line(
            f"not listed: {len(left_out)} of {len(build.program.ops)} layers, whose values the float network does "
            f"not have as they are{there}"
        )


def _note(text: str) -> None:
    note_line(f"note: {text}")


def _kept(build: BuiltFolder) -> list[Sample]:
    from nnkit.samples import Sample

    kept = [Sample(str(index), given) for index, given in enumerate(build.kept_inputs())]
    if not kept:
        raise UserFileError(
            "no verification inputs in this build", where=str(build.folder), remedy="name some with --images"
        )
    return kept


def _print(rows: list[dict[str, Any]], *, gap: bool) -> None:
    width = max((len(row["layer"]) for row in rows), default=5)
    print_line(f"{'':<{width}}        SQNR dB against float")
    print_line(f"{'layer':<{width}}  rank  isolated cumulative{'      gap' if gap else ''}   clipped  format")
    for row in rows:
        rank = "-" if row["rank"] is None else str(row["rank"])
        line = f"{row['layer']:<{width}}  {rank:>4}  {_db(row['isolated_sqnr_db']):>8} "
        line += f"{_db(row['cumulative_sqnr_db']):>10}" + (f" {_db(row['gap_db']):>8}" if gap else "")
        clipped = "-" if row["clip_rate"] is None else f"{row['clip_rate']:.3%}"
        print_line(f"{line}  {clipped:>8}  {row['format']}")


def _db(value: float | None) -> str:
    if value is None:
        return "-"
    return "equal" if value == inf else f"{value:.2f}"

"""`nnkit bench` and `nnkit validate`: a build on an emulated or a real board, every layer compared."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.api.build_inputs import recipe_of
from nnkit.builds import check_origin, open_build
from nnkit.commands.common import print_json
from nnkit.errors import GateFailedError, ToolError, UsageError, UserFileError
from nnkit.terminal import print_line

if TYPE_CHECKING:
    from nnkit.boards.serial_line import SerialPort
    from nnkit.builds import BuiltFolder
    from nnkit.recipe import TargetOptionsBase
    from nnkit.runner import Runner
    from nnkit.target import AnyTarget
    from nnkit.verify.artifact import ArtifactVerdict


_NO_BOARD = "`nnkit targets show NAME` says what runs a target's artifacts"


def bench_command(folder: Path, *, on: str, json: bool, trust: bool = False) -> None:
    """Print instructions by layer, memory, and how many values differ; differences end with exit code 1.

    The inputs are those that the build was verified on, the first of them. trust: code of a build from elsewhere is
    compiled and run, as QEMU can open this machine's files for it.
    Raises UsageError where the target has no such board or the build is from elsewhere and not trusted, UserFileError
    where a file of the artifact was changed, ToolError where the board's tools are missing or fail.
    """
    build = open_build(folder)
    runner = _runner(build, on)
    check_origin(build, trusted=trust)
    missing = runner.missing()
    if missing is not None:
        raise ToolError(missing, where=on, remedy="see `nnkit doctor`")
    _compare(build, runner, json=json)


def validate_command(folder: Path, port: SerialPort, *, json: bool) -> None:
    """The same on a device at a serial port, which counts no instructions.

    Raises UsageError where the target has no firmware for that, ToolError where the device does not answer.
    """
    build = open_build(folder)
    target, options = _target(build)
    runner = target.device(options, port)
    if runner is None:
        raise UsageError(
            f"target {target.name!r} has no firmware that validates", where=str(folder), remedy=_NO_BOARD
        )
    _compare(build, runner, json=json)


def _compare(build: BuiltFolder, runner: Runner, *, json: bool) -> None:
    from nnkit.program.inputs import quantized_inputs
    from nnkit.samples import Sample
    from nnkit.verify.artifact import compare_artifact

    kept = build.kept_inputs()
    if not kept:
        raise UserFileError(
            "the build keeps no input", where=str(build.folder), remedy="build it again with `nnkit run`"
        )
    given = quantized_inputs(build.program, Sample("kept", kept[0]))
    verdict = compare_artifact(runner, build.folder / "artifact", build.program, [given])
    rows = layer_rows(build, verdict)
    if json:
        print_json(summary(build, verdict) | {"layers": rows})
    else:
        _print_text(summary(build, verdict), rows)
    if verdict.mismatches:
        raise GateFailedError(
            f"{verdict.mismatches} of {verdict.values:,} values differ on {runner.name}: {verdict.first_difference}",
            where=str(build.folder),
        )


def _target(build: BuiltFolder) -> tuple[AnyTarget, TargetOptionsBase]:
    """The build's target and its options."""
    from nnkit.target import load_target, plugin_name

    key = str(build.report["target"])
    options = recipe_of(build).targets.get(key)
    if options is None:
        raise UserFileError(
            f"the build's recipe has no target {key!r}", where=str(build.folder), remedy="build it again"
        )
    return load_target(plugin_name(key)), options


def _runner(build: BuiltFolder, on: str) -> Runner:
    """A board of the build's target, or a runner of it that counts."""
    target, options = _target(build)
    emulated = [runner for runner in target.runners(options) if runner.emulated]
    machines = {each.name: each for each in (*target.boards(options), *emulated)}
    if on not in machines:
        known = f"use {', '.join(machines)}" if machines else "no board is known for this target"
        raise UsageError(f"this target cannot be measured on {on!r}", where="--on", remedy=known)
    return machines[on]


def summary(build: BuiltFolder, verdict: ArtifactVerdict) -> dict[str, Any]:
    """The whole call: instructions, multiply-accumulates, what was compared, memory and code in bytes."""
    from nnkit.program import macs

    count = sum(macs(op, build.program) for op in build.program.ops)
    return {
        "on": verdict.how,
        "instructions": verdict.instructions,
        "macs": count,
        "instructions_per_mac": _per(verdict.instructions, count),
        "contract": verdict.contract,
        "values": verdict.values,
        "mismatches": verdict.mismatches,
        "measured": dict(verdict.measured),
    }


def layer_rows(build: BuiltFolder, verdict: ArtifactVerdict) -> list[dict[str, Any]]:
    """Layer after layer: operator, instructions, multiply-accumulates, and the one by the other."""
    from nnkit.program import macs

    rows = []
    for op in build.program.ops:
        spent, count = verdict.instructions_by_layer.get(op.name), macs(op, build.program)
        each = {"instructions": spent, "macs": count, "instructions_per_mac": _per(spent, count)}
        rows.append({"layer": op.name, "op": op.kind} | each)
    return rows


def _per(instructions: int | None, macs: int) -> float | None:
    return round(instructions / macs, 3) if instructions is not None and macs else None


def _print_text(whole: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    counted = whole["instructions"] is not None
    if counted:
        print_line(f"{'instructions':>14} {'MACs':>13} {'per MAC':>8}  layer")
    for row in [*rows, whole | {"layer": f"whole network on {whole['on']}"}] if counted else []:
        spent, per = row["instructions"], row["instructions_per_mac"]
        cells = f"{'-' if spent is None else f'{spent:,}':>14} {row['macs']:>13,} {'-' if per is None else per:>8}"
        print_line(f"{cells}  {row['layer']}")
    for name, size in whole["measured"].items():
        print_line(f"{name:<14} {size:>13,}")
    how = "" if whole["contract"] == "exact" else " by more than their bound"
    print_line(f"{whole['mismatches']} of {whole['values']:,} values of {len(rows)} layers differ{how}")

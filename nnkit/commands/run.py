"""`nnkit run`: the main job."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.api.building import run_build
from nnkit.api.naming import load_named
from nnkit.api.preparing import Switches, builds
from nnkit.build_status import RELEASED
from nnkit.commands.common import byte_count, not_built, print_json
from nnkit.errors import GateFailedError, InternalError, NnkitError, UnprovenError, raise_failed
from nnkit.executors import THIS_HOST, ExecutorChoice
from nnkit.failures import as_error
from nnkit.reading import read_json_object
from nnkit.report.advice import CLIPPED_SHARE, UNSEEN_FACTOR
from nnkit.report.html.words import compared_inputs
from nnkit.report.progress import Progress
from nnkit.report.untried import KEPT_FORMATS
from nnkit.terminal import Colour, Coloured, flush, note_line, print_line
from nnkit.verify.gates import FLOAT_FAILS, GateResult, float_fails_alone
from nnkit.visible import Visible, visible

if TYPE_CHECKING:
    from nnkit.pipeline import Outcome
    from nnkit.recipe.settings import Setting
    from nnkit.stages import Build

_LISTED = 8  # layers in 16 bits, and notes, that are told one by one; the report has all
_NAMED = 3  # files that are named in a line


@dataclass(frozen=True)
class RunOptions:
    """The switches of `nnkit run`. jobs: builds at a time, for several recipes or targets. trust: of
    the recipes, so that programs they name are run."""

    targets: tuple[str, ...] = ()
    out: Path = Path("out")
    cache: bool = True
    emulate: bool = True
    json: bool = False
    verbose: bool = False
    executor: ExecutorChoice = THIS_HOST
    jobs: int = 1
    trust: bool = False
    settings: tuple[Setting, ...] = ()


def run_command(recipes: Sequence[Path], options: RunOptions) -> None:
    """Build every wanted target of every recipe.

    All are tried, and the exit code is the worst. Several recipes, one that spans a grid, and several builds at a
    time get a table.
    """
    from nnkit.commands.sweep import jobs_of, sweep
    from nnkit.executors import check_choice
    from nnkit.recipe.deployment_loading import is_deployment

    check_choice(options.executor)
    if len(recipes) == 1 and is_deployment(recipes[0], options.settings):
        from nnkit.commands.deployment import run_deployment_command

        run_deployment_command(recipes[0], options)
        return
    jobs = jobs_of(recipes, options)
    try:
        if len(recipes) > 1 or options.jobs > 1 or any(job.spanned for job in jobs.wanted):
            sweep(jobs, options)
        else:
            _run_one(recipes[0], options)
    except KeyboardInterrupt:
        if options.cache:
            note_line("  what is finished is kept in the cache: the same command goes on from there")
        raise


def _run_one(path: Path, options: RunOptions) -> None:
    """Every wanted target of one recipe in turn; one that fails keeps none of the others from its build."""
    wanted = wanted_builds(path, options, Progress(verbose=options.verbose))
    results: list[dict[str, Any]] = []
    failed: dict[str, NnkitError] = {}
    bug: Exception | None = None
    for build in wanted:
        build.progress.line(f"{build.recipe.name} for {build.key}")
        try:
            outcome, seconds = run_build(build, options.out)
        except Exception as error:
            if len(wanted) == 1:
                raise
            why = failed[build.key] = as_error(error)
            bug = bug or (error if isinstance(why, InternalError) else None)
            results.append(not_built(path, build.key, str(why), int(why.exit_code)))
            continue
        results.append(outcome.report)
        if not options.json:
            _summary(outcome.report, outcome.folder, seconds)
        error_of_build = _not_passed(build, outcome)
        if error_of_build is not None:
            failed[build.key] = error_of_build
    if options.json:
        print_json(results[0] if len(wanted) == 1 else results)
        flush(sys.stdout)
    raise_failed(failed, len(wanted), bug)


def _not_passed(build: Build, outcome: Outcome) -> NnkitError | None:
    """Why a build is no release, or an unproven one; None where it passed."""
    if outcome.status not in RELEASED:
        remedy = FLOAT_FAILS if float_fails(outcome.report) else "see report.json there, and `nnkit diagnose`"
        unchanged = f"{remedy}; the last good build is unchanged"
        return GateFailedError(failure_text(build, outcome), remedy=unchanged)
    if outcome.status == "unproven":
        return UnprovenError(unproven_text(outcome), remedy=how_to_prove(outcome))
    return None


def float_fails(report: Mapping[str, Any]) -> str:
    """That the float network itself fails the gates, and nothing else is wrong, in words; else empty."""
    verify = report["verify"]
    if any(entry["mismatches"] for entry in verify["program_vs_artifact"]):
        return ""
    if not all(entry["ran"] for entry in verify.get("required", ())):
        return ""
    return float_fails_alone([GateResult.from_json(gate) for gate in verify["gates"]])


def wanted_builds(path: Path, options: RunOptions, progress: Progress) -> list[Build]:
    """One Build for each target of a recipe that is wanted."""
    named = load_named(path, options.settings, options.targets)
    return builds(named.recipe, named.keys, progress, switches(options))


def switches(options: RunOptions) -> Switches:
    """How builds are made."""
    return Switches(options.cache, options.emulate, options.executor, options.trust)


PROVE = "`nnkit doctor` tells what is missing and how to get it; then run again"
"""What to do about a build that is unproven since tools are missing."""


def how_to_prove(outcome: Outcome) -> str:
    """What to do about a build that is unproven, by the reasons for which its runners did not run."""
    report: dict[str, Any] = outcome.report
    reasons = [entry["reason"] for entry in report["verify"]["program_vs_artifact"]]
    if not reasons:
        return "give the target a runner: the method `runners` of its plugin (docs/writing_a_target.md)"
    return "run again without --no-qemu" if all("--no-qemu" in reason for reason in reasons) else PROVE


def unproven_text(outcome: Outcome) -> str:
    """Why nothing has run the artifact, for people."""
    report: dict[str, Any] = outcome.report
    verdicts = report["verify"]["program_vs_artifact"]
    lines = [f"{report['target']}: built and packed, but UNPROVEN: nothing has run the artifact ({outcome.folder})"]
    lines += [f"{entry['how']}: not run: {entry['reason']}" for entry in verdicts]
    if not verdicts:
        lines.append("the target has no runner")
    return Visible("\n  ".join(map(visible, lines)))


def failure_text(build: Build, outcome: Outcome) -> str:
    """Why a build did not pass, for people, and what of the recipe's lines may help."""
    from nnkit.commands.not_tried import not_tried

    report: dict[str, Any] = outcome.report
    verify = report["verify"]
    lines = [f"{report['target']}: {report['status'].replace('_', ' ')} ({outcome.folder})"]
    lines += [f"gate {gate}" for gate in map(GateResult.from_json, verify["gates"]) if not gate.passed]
    lines += [why for why in [float_fails(report)] if why]
    lines += [
        f"{entry['how']}: {entry['mismatches']} of {entry['values']} values differ; {entry['first_difference']}"
        for entry in verify["program_vs_artifact"]
        if entry["mismatches"]
    ]
    lines += [
        f"{entry['how']}: required by verify.require, but not run: {entry['reason']}"
        for entry in verify.get("required", ())
        if not entry["ran"]
    ]
    rest = not_tried(build, report)
    if rest is not None:
        lines.append(f"not tried: {rest}")
    return Visible("\n  ".join(map(visible, lines)))


def _summary(report: dict[str, Any], folder: Path, seconds: float) -> None:
    from nnkit.verify.gates import limit_in_words

    verify = report["verify"]
    floats = verify["float_vs_program"]
    colour: Colour = "green" if report["status"] == "ok" else "yellow" if report["status"] == "unproven" else "red"
    print_line(f"{report['recipe']} for {report['target']}: ", Coloured(report["status"], colour))
    for name, use in report["memory"].items():
        proof = "optimal" if use["proven_optimal"] else f"lower bound {byte_count(use['lower_bound_bytes'])}"
        if name == "arena" and "smallest_arena_bytes" in report.get("details", {}):
            proof += " for whole layers"
        peak, capacity = use["peak_bytes"], use["capacity_bytes"]
        of = f" of {byte_count(capacity)}" if use.get("limited", True) else ""
        share = f"{peak / capacity:.1%}, " if of and capacity else ""
        print_line(f"  {name:<9}{byte_count(peak)}{of} ({share}{proof})")
    sqnr = "-" if floats["sqnr_db"] is None else f"{floats['sqnr_db']:.1f} dB"
    sqnr = "exact" if floats["max_abs"] == 0.0 else sqnr
    task, inputs = verify.get("task", {}), compared_inputs(floats)
    if task.get("kind") == "detection":  # distances say nothing of a list of detections
        detections = f"{task['facts']['float_detections']:.0f} detections of the float network"
        print_line(f"  accuracy by {detections} on {inputs}")
    elif floats["cosine"] is None:
        print_line(f"  accuracy not measured, on {inputs}")
    else:
        print_line(f"  accuracy cosine {floats['cosine']:.6f}, SQNR {sqnr} against float on {inputs}")
    if floats["seen_by_calibration"]:
        print_line(
            f"  note     {floats['seen_by_calibration']} of these inputs are calibration images too: the figures "
            "flatter; name others in verify.images"
        )
    for doubt in report["doubts"]:
        print_line("  ", Coloured("doubt", "yellow"), f"    {doubt}")
    for metric in task.get("metrics", ()):
        beside = "" if metric["float"] is None else f" (float {metric['float']:.4f})"
        measured = "-" if metric["program"] is None else f"{metric['program']:.4f}"
        print_line(f"  task     {metric['name']} {measured}{beside}")
    for text in _quantisation_lines(report):
        print_line(f"  {text}")
    for line in (*_flash_lines(report, folder), *report.get("details", {}).get("summary", ())):
        print_line(f"  {line}")
    search = report.get("mixed_precision")
    if search is not None:
        print_line(f"  16 bits  {', '.join(row['name'] for row in search['chosen']) or 'none'}: {search['reason']}")
        for row in search["chosen"][:_LISTED]:
            print_line(f"           {row['name']}: {row['extra_weight_bytes']:,} B more of weights; {row['reason']}")
    for entry in verify["program_vs_artifact"]:
        if entry["contract"] == "not_run":
            print_line(f"  {_label(entry['how'])}not run: {entry['reason']}")
            continue
        line = (
            f"  {_label(entry['how'])}{entry['mismatches']} of {entry['values']:,} values differ from the simulator"
        )
        if entry["contract"] == "bounded":
            largest = entry.get("max_difference")
            line += (
                f" by more than the bound (the largest {'is not finite' if largest is None else f'by {largest:g}'})"
            )
        if "instructions" in entry and report["macs"]:
            per_mac = entry["instructions"] / report["macs"]
            line += f"; {entry['instructions']:,} instructions ({per_mac:.2f} per MAC)"
        cycles = entry.get("measured", {}).get("cycles")
        if cycles:
            line += f"; {cycles:,} cycles ({report['macs'] / cycles:.2f} MAC per cycle)"
        print_line(line)
    for gate in map(GateResult.from_json, verify["gates"]):
        verdict = "passed" if gate.passed else Coloured("FAILED", "red")
        print_line(f"  gate     {gate.name} {gate.in_words}, {limit_in_words(gate.name, gate.limit)}: ", verdict)
    unproven = [layer for layer in report["layers"] if layer["proof"] == "pinned_unproven"]
    if unproven:
        wraps = sum(layer.get("observed", {}).get("wraps", 0) for layer in unproven)
        saturated = sum(layer.get("observed", {}).get("saturated", 0) for layer in unproven)
        print_line(
            f"  unproven {len(unproven)} pinned layers could overflow; seen: {wraps} wraps, {saturated} saturations"
        )
    met = unseen_line(report["layers"])
    if met:
        print_line(met)
    print_line(f"  build    {folder} ({seconds:.1f} s)")


def _flash_lines(report: dict[str, Any], folder: Path) -> list[str]:
    """Flash of a microcontroller: weights, and code where this machine's cross compiler has measured it."""
    weights = report.get("details", {}).get("flash_bytes")
    if weights is None:
        return []
    code = read_json_object(folder / "run.json", what="run.json", remedy="run again").get("code_bytes", {})
    if not code:
        return [f"flash    {weights:,} B of weights, and the code: `nnkit bench` measures it"]
    return [
        f"flash    {weights:,} B of weights + {size:,} B of code on {board} = {weights + size:,} B"
        for board, size in code.items()
    ]


def _quantisation_lines(report: dict[str, Any]) -> list[str]:
    """Calibration files that were left out, values that are clipped, and what the quantiser has to say."""
    lines = []
    skipped = [Path(entry["name"]).name for entry in report["calibration"]["skipped"]]
    if skipped:
        more = f" and {len(skipped) - _NAMED} more" if len(skipped) > _NAMED else ""
        lines.append(
            f"skipped  {len(skipped)} calibration {'image' if len(skipped) == 1 else 'images'} that cannot be used: "
            f"{', '.join(skipped[:_NAMED])}{more} (why: report.json, calibration)"
        )
    notes = report["quantization_notes"]
    clipped = None if KEPT_FORMATS in notes else clipped_line(report["layers"])
    if clipped is not None:
        lines.append(clipped)
    lines += [f"note     {note}" for note in notes[:_LISTED]]
    if len(notes) > _LISTED:
        lines.append(f"note     {len(notes) - _LISTED} more in report.json, quantization_notes")
    return lines


def clipped_line(layers: Sequence[dict[str, Any]]) -> str | None:
    """How much of the float layers' values their formats cut off, where that is worth a line."""
    clipping = [layer for layer in layers if layer.get("clip_rate", 0.0) >= CLIPPED_SHARE]
    if not clipping:
        return None
    most = max(clipping, key=lambda layer: float(layer["clip_rate"]))
    return (
        f"clipped  {most['clip_rate']:.2%} of the values of '{most['name']}', the most of {len(clipping)} "
        f"{'layer' if len(clipping) == 1 else 'layers'} with {CLIPPED_SHARE:.1%} or more"
    )


def unseen_line(layers: Sequence[dict[str, Any]]) -> str | None:
    """Which layers met, on the verification inputs, values far beyond what they were calibrated for; None: none.

    Layers in float clip nothing, and do not count.
    """
    far = [
        layer
        for layer in layers
        if layer.get("unseen", {}).get("factor", 0.0) > UNSEEN_FACTOR
        and not layer["formats"]["output"].startswith("f")
    ]
    if not far:
        return None
    most = max(far, key=lambda layer: float(layer["unseen"]["factor"]))
    return (
        f"  unseen   {len(far)} {'layer' if len(far) == 1 else 'layers'} met values up to "
        f"{most['unseen']['factor']:.2f} times as large as calibration saw ('{most['name']}' most, on "
        f"{most['unseen']['input']}), and clipped them: calibrate with more inputs like it"
    )


def _label(how: str) -> str:
    """The first column of a line; a longer name has a space behind it."""
    return f"{how:<8} "

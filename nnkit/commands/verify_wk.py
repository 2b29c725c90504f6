"""`nnkit verify-wk`: a build's weights, biases and multipliers against those in a compiled network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.builds import open_build
from nnkit.commands.common import print_json
from nnkit.errors import GateFailedError, UsageError
from nnkit.terminal import note_line, print_line

if TYPE_CHECKING:
    from nnkit.target import CompiledComparison

_SHOWN = 5


def verify_wk_command(build: Path, compiled: Path, *, json: bool) -> None:
    """Print how many numbers were compared and how many are equal; others end with exit code 1.

    What differs only because a float lies within its last bits of a rounding's middle is told, and no failure.
    Raises UsageError where the build's target has no compiled format that is known.
    """
    from nnkit.target import load_target, plugin_name, working_targets

    opened = open_build(build)
    name = plugin_name(str(opened.report["target"]))
    compare = load_target(name).compiled_comparison()
    if compare is None:
        others = [other for other, target in working_targets()[0].items() if target.compiled_comparison() is not None]
        raise UsageError(
            f"nothing is known of what the compiler of {name!r} writes",
            where=str(build),
            remedy=f"verify-wk is for builds of {', '.join(others) or 'no installed target'}",
        )
    comparison = compare(build, opened.program, compiled)
    for note in comparison.notes:
        note_line(f"note: {note}")
    if json:
        print_json(comparison.as_json())
    else:
        _print_text(comparison)
    differing = comparison.differing
    if differing:
        raise GateFailedError(
            f"numbers of {len(differing)} layer{'s' * (len(differing) > 1)} differ, the first is {differing[0]!r}",
            where=str(compiled),
            remedy=remedy_for(opened.report, differing),
        )


def remedy_for(report: Mapping[str, Any], differing: Sequence[str]) -> str:
    """What to do about layers whose numbers differ, by what the build did with them."""
    folded = {
        part
        for entry in report["rewrites"]
        if entry["name"] == "fold_batch_norm"
        for site in entry["sites"]
        for part in site.split(" + ")
    }
    taken = {row["name"] for row in report["layers"] if not folded.isdisjoint((row["name"], *row["origins"]))}
    count = sum(layer in taken for layer in differing)
    if count == len(differing):
        whose = "this one" if count == 1 else "each of these"
        return (
            f"the build folds BatchNorm into {whose}, and a mapper that folds it itself rounds otherwise: name "
            "what it made of this build's own artifact (compile.sh)"
        )
    some = f"; the build folds BatchNorm into {count} of these" if count else ""
    return (
        "name the build whose files were compiled: other weights give other numbers, and so do corrections "
        f"({{corrections: []}} leaves them out){some}"
    )


def _print_text(comparison: CompiledComparison) -> None:
    for each in comparison.numbers:
        if not each.compared:
            continue
        tied = f", {each.tied} more but for the last bit of a float" if each.tied else ""
        print_line(f"{each.name:<11}  {each.equal:,} of {each.compared:,} equal{tied}")
    print_line(f"not read     {comparison.records_unread:,} records")
    for layer in sorted(comparison.layers, key=lambda each: not each.differs)[:_SHOWN]:
        kind = "differs" if layer.differs else "last bit"
        counts = ", ".join(
            f"{c.compared - c.equal} of {c.compared} {c.name}" for c in layer.numbers if c.equal < c.compared
        )
        print_line(f"{kind:<11}  {layer.layer}: {counts}")
    if len(comparison.layers) > _SHOWN:
        print_line(f"             and {len(comparison.layers) - _SHOWN} more layers: --json names them")

"""Runs the native ONNX tools in a process of their own, with limits on memory and time.

A damaged model can make a C++ checker, converter or folder crash, hang or take all memory; then that process ends
and the import reports it. Only the `simplify` step may fail without harm: the import goes on without it.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.children.start import python_child
from nnkit.errors import ModelError, UserFileError
from nnkit.external_tool import SLOW, run_tool
from nnkit.importers.value_memory import allowed_bytes
from nnkit.owned_folder import temporary_folder
from nnkit.trust import VALUES_VARIABLE
from nnkit.visible import Visible, visible

if TYPE_CHECKING:
    import onnx

    from nnkit.graph.weights_aside import Weights

_ORIGINAL, _WEIGHTS = "original.onnx", "weights.bin"
_BESIDE_VALUES_BYTES = 4 * 2**30  # libraries, weights, constants while they are folded
_OPTIONAL = "simplify"
_SLOW = "it took longer than"
_LARGE = "it took more memory than it may"
_NOT_SIMPLIFIED = "not simplified: "
_DAMAGED = "the file is damaged, or its sizes are absurd: export the network again"
_MORE = f"{_DAMAGED}; if it is meant so, allow more memory: {VALUES_VARIABLE}=8 (GiB)"
_PURPOSE = {
    "inline": "inlining its functions",
    "check": "checking it",
    "resolve": "taking its branches",
    "convert": "converting its operator set",
    "simplify": "simplifying it",
    "fold": "folding its constants",
    "finish": "running it",
}


@dataclass(frozen=True)
class ToolLimits:
    """Limits of one run of the tools. `memory_bytes` is address space, of which libraries alone take about 1 GiB;
    without it, 4 GiB and what the network's values may take."""

    memory_bytes: int | None = None
    seconds: float = 120.0


DEFAULT_LIMITS = ToolLimits()


@dataclass(frozen=True)
class ToolResult:
    """What came of the steps: the model, notes for the user, and the large weights, which the model is without
    (`weights_aside`)."""

    model: onnx.ModelProto
    notes: tuple[str, ...]
    weights: Weights = field(default_factory=dict)


def run_steps(
    model: onnx.ModelProto,
    steps: Sequence[str],
    *,
    where: str,
    limits: ToolLimits = DEFAULT_LIMITS,
    weights: dict[str, bytes] | None = None,
) -> ToolResult:
    """Run `steps` (names in `tool_steps.STEPS`) on `model`, which loses its large weights to the result.

    weights: those that `take_weights` took from it before; the dictionary is empty afterwards, so that they are in
        memory once at most.

    Raises:
        ModelError: a step refused the model, crashed on it, or went over a limit; `simplify` excepted.
        UserFileError: there is no room for temporary files.
    """
    from nnkit.graph.weights_aside import take_weights, write_weights

    weights = take_weights(model.graph) if weights is None else weights
    try:
        with temporary_folder("nnkit-import-") as folder:
            (folder / _ORIGINAL).write_bytes(model.SerializeToString(deterministic=True))
            sizes = write_weights(folder / _WEIGHTS, weights)
            weights.clear()
            return _run(folder, list(steps), sizes, where, limits)
    except OSError as error:
        raise UserFileError(
            f"temporary files cannot be written: {error.strerror or error}",
            where=tempfile.gettempdir(),
            remedy="free some space there, or set TMPDIR to another folder",
        ) from error


def _run(folder: Path, steps: list[str], sizes: Mapping[str, int], where: str, limits: ToolLimits) -> ToolResult:
    """The result, its large weights as the tools left them."""
    import onnx

    from nnkit.graph.weights_aside import read_weights
    from nnkit.importers.tool_worker import NEW_WEIGHTS

    memory_bytes = limits.memory_bytes or _BESIDE_VALUES_BYTES + allowed_bytes()
    model, notes = _ORIGINAL, list[str]()
    attempt = 0
    while True:
        request = {
            "model": model, "original": _ORIGINAL, "weights": _WEIGHTS, "sizes": sizes, "steps": steps,
            "where": where, "notes": notes, "memory_bytes": memory_bytes, "attempt": attempt,
        }  # fmt: skip
        (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
        (folder / "state.json").unlink(missing_ok=True)
        ended = _start(folder, limits.seconds)
        report = _report(folder)
        refused = report.get("refused")
        if refused:
            raise refusal(refused, report.get("notes", notes))
        model, notes = report.get("model", model), report.get("notes", notes)
        if ended is None and report.get("done") == steps:
            changed = report["weights"]
            left = read_weights(folder / (NEW_WEIGHTS if changed else _WEIGHTS), changed or sizes)
            result = onnx.load_model_from_string((folder / model).read_bytes())
            return ToolResult(result, tuple(notes), left)
        failed = report.get("step", "")
        why = _LARGE if report.get("out_of_memory") else ended or "the tools crashed on it"
        if failed != _OPTIONAL:
            raise ModelError(
                f"the model cannot be used: {why}, while {_PURPOSE.get(failed, 'reading it')}",
                where=where,
                remedy=SLOW if why.startswith(_SLOW) else _MORE if why == _LARGE else _DAMAGED,
            )
        notes = [*notes, f"{_NOT_SIMPLIFIED}{why}"]
        steps = steps[steps.index(_OPTIONAL) + 1 :]
        attempt += 1


def refusal(refused: Mapping[str, str], notes: Sequence[str]) -> ModelError:
    """What a step refused: `reason` (lines made visible), `where`, `remedy`; with why the model was not simplified,
    where it was not, as that may be the cause: shapes that are computed are known only then."""
    without = next((note for note in notes if note.startswith(_NOT_SIMPLIFIED)), "")
    reason = Visible(f"{refused['reason']}; {visible(without)}" if without else refused["reason"])
    slow = without.startswith(f"{_NOT_SIMPLIFIED}{_SLOW}")
    return ModelError(reason, where=refused["where"], remedy=SLOW if slow else refused["remedy"])


def _start(folder: Path, seconds: float) -> str | None:
    """Run the worker; None when it ended well, else what happened to it."""
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command, environment = python_child("nnkit.importers.tool_worker", str(folder.absolute()), variables=one_thread)
    run = run_tool(command, environment=environment, timeout_s=seconds)
    if not run.failed:
        return None
    if run.code is None:
        return f"{_SLOW} {run.timeout_s:.0f} s"
    if "bad_alloc" in run.errors or "MemoryError" in run.errors:
        return _LARGE
    how = f"signal {-run.code}" if run.code < 0 else f"status {run.code}"
    return f"the tools crashed on it ({how})"


def _report(folder: Path) -> dict[str, Any]:
    try:
        report = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return report if isinstance(report, dict) else {}

"""`nnkit.run`: builds, verified and packed, as typed results; and the file of a run's timings."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.api.naming import load_named
from nnkit.api.preparing import Switches, builds
from nnkit.api.results import BuildResult, result_of
from nnkit.errors import NnkitError, ToolError, cannot_be_written, raise_failed
from nnkit.recipe.model_formats import is_network
from nnkit.report.progress import Progress
from nnkit.runner import MeasuresCode

if TYPE_CHECKING:
    from nnkit.pipeline import Outcome
    from nnkit.stages import Build


def run(
    recipe: str | Path,
    *,
    targets: str | Sequence[str] = (),
    images: str | Path | None = None,
    out: str | Path = "out",
    settings: Mapping[str, Any] | None = None,
    switches: Switches | None = None,
) -> tuple[BuildResult, ...]:
    """Build, verify and pack a release for every wanted target of a recipe; one result a target.

    Args:
        recipe: the recipe file; or a model, with `images`: a folder of pictures to calibrate and verify on.
        targets: only these (a target's name, or a variant's); none named: all of the recipe.
        out: folder; builds go to `out/<name>/<target>`.
        settings: values that replace the recipe's, by key: `{"targets.npu.precision": "int8"}`.
        switches: cache, emulation, executor, trust.

    A build that fails its gates, or whose artifact disagrees, is returned with its status and kept beside the last
    good one. Raises NnkitError (its classes are in `nnkit.errors`) for what cannot be built, when all are tried.
    """
    from nnkit.recipe.settings import settings_of

    path, wanted = Path(recipe), (targets,) if isinstance(targets, str) else tuple(targets)
    if is_network(path) or images is not None:
        from nnkit.api.drafting import drafted

        path = drafted(path, Path(out), targets=wanted, images=None if images is None else Path(images))
        wanted = ()
    named = load_named(path, settings_of(settings or {}), wanted)
    outcomes, failed = [], {}
    for build in builds(named.recipe, named.keys, Progress(quiet=True), switches or Switches()):
        try:
            outcomes.append(run_build(build, Path(out))[0])
        except NnkitError as error:
            failed[build.key] = error
    raise_failed(failed, len(outcomes) + len(failed))
    return tuple(result_of(outcome.folder, outcome.report) for outcome in outcomes)


def run_build(build: Build, out: Path) -> tuple[Outcome, float]:
    """One build, its notes and its `run.json`; and how many seconds it took."""
    from nnkit.pipeline import run as run_stages

    began = time.perf_counter()
    build.progress.timings.clear()
    outcome = run_stages(build, out)
    for note in build.cache.notes:
        build.progress.note(note)
    seconds = time.perf_counter() - began
    write_run_json(outcome.folder, build, seconds, _code_bytes(build, outcome.folder))
    return outcome, seconds


def _code_bytes(build: Build, folder: Path) -> dict[str, int]:
    """Bytes of code without weights by board: of the first one whose compiler is installed; empty without any."""
    for board in build.target.boards(build.options):
        if isinstance(board, MeasuresCode) and board.without_compiler() is None:
            try:
                return {board.name: board.code_bytes(folder / "artifact")}
            except ToolError as error:
                build.progress.note(f"the code was not measured for {board.name}: {error.reason}")
    return {}


def write_run_json(folder: Path, build: Any, seconds: float, code: Mapping[str, int] | None = None) -> None:
    """`run.json`: timings, cache hits, host, and this user's mark; the only file that differs between two runs.

    code: bytes of code by board, as this machine's cross compiler makes it.
    """
    import platform

    from nnkit.report.build import write_json
    from nnkit.trust import mark_of_report

    data = {
        "seconds": round(seconds, 3),
        "stages": [
            {"name": t.name, "seconds": round(t.seconds, 3), "cached": t.cached} for t in build.progress.timings
        ],
        "notes": list(build.cache.notes),
        "host": {"system": platform.system(), "machine": platform.machine(), "python": platform.python_version()},
        **({"code_bytes": code} if code else {}),
        "tools": {tool.name: tool.version for tool in build.target.tools() if tool.found},
        "made_here": mark_of_report(folder),
    }
    try:
        write_json(folder / "run.json", data)
    except OSError as error:
        raise cannot_be_written(folder / "run.json", error) from error

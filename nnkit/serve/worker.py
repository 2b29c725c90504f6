"""One job, in a process of its own: `python -m nnkit.serve.worker FOLDER`. How it ends stands in `result.json`."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.api.building import run_build
from nnkit.api.drafting import write_draft
from nnkit.api.preparing import Switches, builds
from nnkit.build_status import RELEASED
from nnkit.errors import NnkitError, UsageError
from nnkit.executors import ExecutorChoice
from nnkit.failures import write_traceback
from nnkit.importers.external_data import MissingDataError
from nnkit.recipe.model_formats import FORMAT_OF_SUFFIX
from nnkit.report.progress import Progress
from nnkit.serve.processes import adopt_orphans
from nnkit.serve.room import DISK_FULL_CODE, is_disk_full
from nnkit.serve.store import JobFolder
from nnkit.serve.strangers import load_foreign
from nnkit.target.named import CHIP

if TYPE_CHECKING:
    from nnkit.recipe import Recipe

RECIPE = "recipe.yaml"
IMAGES = "images"
_WORST_LAST = ("ok", "unproven", "gate_failed", "mismatch")


@dataclass(frozen=True)
class Order:
    """What the server asks of the process, as `order.json`. settings: values for keys of the recipe."""

    target: str
    settings: dict[str, Any]
    executor: str
    scheduler: str | None
    workers: int | None


def write_order(folder: JobFolder, target: str, settings: dict[str, Any], choice: ExecutorChoice) -> None:
    """For the process that is about to start."""
    order = Order(target, settings, choice.name, choice.scheduler, choice.workers)
    (folder.path / "order.json").write_text(json.dumps(asdict(order)), encoding="utf-8")


def work(folder: JobFolder) -> dict[str, Any]:
    """All builds of a job, in the folder of what was sent. Raises NnkitError."""
    order = Order(**json.loads((folder.path / "order.json").read_text(encoding="utf-8")))
    os.chdir(folder.input)
    recipe = recipe_of(order)
    progress = Progress(journal=folder.journal)
    choice = ExecutorChoice("dask" if order.executor == "dask" else "local", order.workers, order.scheduler)
    key = _key(order.target)
    wanted = [key] if key in recipe.targets else []
    statuses: list[str] = []
    for build in builds(recipe, wanted, progress, Switches(executor=choice)):
        progress.line(f"{recipe.name} for {build.key}")
        outcome, _ = run_build(build, folder.out)
        statuses.append(outcome.status)
    return {"status": max(statuses, key=_WORST_LAST.index), "released": all(s in RELEASED for s in statuses)}


def recipe_of(order: Order) -> Recipe:
    """What was sent, or what `nnkit init` writes for the model that was, which lies in the current folder."""
    own = Path(RECIPE)
    if not own.exists():
        models = sorted(path for path in Path().iterdir() if path.suffix.lower() in FORMAT_OF_SUFFIX)
        if len(models) != 1:
            raise UsageError(
                f"{len(models)} models were sent" if models else "no model was sent",
                where="model",
                remedy="send one .onnx or .tflite, one .prototxt with its .caffemodel, or a recipe.yaml",
            )
        images = Path(IMAGES) if Path(IMAGES).is_dir() else None
        write_draft(models[0], own, targets=[order.target] if order.target else [], images=images, shapes=())
    return load_foreign(own, order.settings, _key(order.target))


def _key(target: str) -> str:
    """The key in a recipe of a target that was named with a chip: `npu` of `npu:chip`."""
    return target.partition(CHIP)[0]


def main(arguments: list[str]) -> int:
    """Works on the job's folder. Returns the exit code of a run."""
    adopt_orphans()
    folder = JobFolder(Path(arguments[0]).resolve())
    code = 0
    try:
        result = work(folder)
    except Exception as error:
        if is_disk_full(error):
            return _without_room()
        result, code = _failure(error)
    new = folder.result.with_name(".result.new")
    try:
        new.write_text(json.dumps(result), encoding="utf-8")
        new.replace(folder.result)
    except OSError as error:
        if is_disk_full(error):
            return _without_room()
        raise
    return code


def _without_room() -> int:
    """The exit code that says it all; what waits to be written into the log would end in another one."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return DISK_FULL_CODE


def _failure(error: Exception) -> tuple[dict[str, Any], int]:
    """What the sender reads, and the exit code; of a bug the log has the traceback, for whoever runs the server."""
    if isinstance(error, MissingDataError):
        files = " and ".join(error.locations)
        send = "send that file too" if len(error.locations) == 1 else "send those files too"
        return {"error": f"{error.model.name} keeps its weights in {files}: {send}"}, int(error.exit_code)
    if isinstance(error, NnkitError):
        return {"error": str(error)}, int(error.exit_code)
    write_traceback(error, sys.stderr)
    return {"error": f"a bug in nnkit: {type(error).__name__}: {error}"}, 70


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Commands in a folder that a stranger has filled, and jobs of the service that were sent such files: every file that
is opened is seen, and none of the hostile ones may be. A command that does not do its work counts as found, too.

`python -m nnkit` is not tried: before nnkit runs, Python itself imports modules of the folder it is started in.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random

from fuzz import NothingToTryError
from fuzz.builds import RECIPE, write_project
from fuzz.hostile import AVAILABLE, Watch, fill

_RECIPE = RECIPE.replace("onnx_qdq", "ansi_c").replace("${VERSION:-1.0.0}", "1.0.0")
_BUILD = "out/small/ansi_c"
_PACKAGE = f"{_BUILD}/small-1.0.0-ansi_c.nnpkg"
_RUN = "run recipe.yaml --no-cache --out out2"
COMMANDS = (
    *("check recipe.yaml", "plan recipe.yaml", "init net.onnx --out first.yaml", "explain NK211", "targets list"),
    *("doctor", "schema", "rules", f"package verify {_PACKAGE}", f"package extract {_PACKAGE} there"),
    *(f"package build {_BUILD} --out x.nnpkg", f"simulate {_BUILD} --input 0.npy --output y.npy", f"report {_BUILD}"),
    *(
        f"simulate {_BUILD} --input 0.npy --output y.npy --on host",
        f"compare {_BUILD} {_BUILD}",
        f"diagnose {_BUILD}",
    ),
    *(_RUN, f"{_RUN} --workers 2", f"{_RUN} --executor dask --workers 1", "job"),
)
"""What is tried; `job`: the service builds what is in the folder."""

_PATHS = ("", ":", ".:", "./:", "bin:")
_START = "import sys\nfrom nnkit.cli import main\n\nif __name__ == '__main__':\n    sys.exit(main())\n"
_JOB = """\
import sys, time
from pathlib import Path
from nnkit.serve.limits import Limits, ServeOptions
from nnkit.serve.store import Store
from nnkit.serve.supervisor import Supervisor

if __name__ == "__main__":
    folder, name = Path(sys.argv[1]), sys.argv[2]
    store = Store(folder)
    supervisor = Supervisor(store, ServeOptions(folder, limits=Limits(job_seconds=600)))
    supervisor.start()
    while (job := store.get(name, "me")) is None or job.state in ("waiting", "running"):
        time.sleep(0.05)
    supervisor.stop()
    sys.exit(0 if job.state == "done" else job.error)
"""
_TIMEOUT_S = 600.0
_TEMPORARY = "tmp"
"""The folder of temporary files, in which another user has made the one that all users' Dask works in."""


@dataclass(frozen=True)
class Seeds:
    """project: recipe, network, inputs and their build. scripts: `start.py` is the command and `job.py` the service
    with one job, as what `pip` installs: their own folder is on their path, not the current one. configuration:
    nnkit's, by which it knows the build for its own."""

    project: Path
    scripts: Path
    configuration: Path


def seeds(folder: Path) -> Seeds:
    """A built project of a small network."""
    if not AVAILABLE:
        raise NothingToTryError("folders are watched on Linux")
    given = Seeds(folder / "project", folder / "scripts", folder / "config")
    for each in (given.project, given.scripts):
        each.mkdir()
    (given.scripts / "start.py").write_text(_START)
    (given.scripts / "job.py").write_text(_JOB)
    write_project(given.project)
    (given.project / "recipe.yaml").write_text(_RECIPE)
    _run(given, ["start.py", "run", "recipe.yaml"], given.project, folder / "cache", "")
    return given


def attempt(given: Seeds, chance: Random, folder: Path) -> None:
    """One command in one folder; some of the hostile files beside, or all."""
    try_command(given, chance.choice(COMMANDS), chance.choice(_PATHS), folder, thinned=chance)


def try_command(given: Seeds, command: str, path: str, folder: Path, *, thinned: Random | None = None) -> None:
    """Raises AssertionError where a hostile file is opened, or the command fails. path: stands before PATH."""
    place = folder / "hostile"
    words = ["start.py", *command.split()]
    if command == "job":
        place, words = _job(given, folder)
    shutil.copytree(given.project, place, dirs_exist_ok=True)
    fill(place, keep=0.5 if thinned is not None and thinned.random() < 0.5 else 1.0, chance=thinned)
    shared = folder / _TEMPORARY / "dask-scratch-space"
    shared.mkdir(parents=True)
    fill(shared)
    with Watch([place, shared]) as watch:
        said = _run(given, words, place, folder / "cache", path)
        opened = watch.opened()
    if opened:
        raise AssertionError(f"nnkit {command} opened {', '.join(opened)}\n{said}")


def _job(given: Seeds, folder: Path) -> tuple[Path, list[str]]:
    from nnkit.serve.store import Sender, Store, new_record

    store = Store(folder / "jobs")
    name, job = store.new_folder(Sender("me"), 9, 9)
    store.add(new_record(name, Sender("me"), "net", "ansi_c", {}))
    return job.input, ["job.py", str(folder / "jobs"), name]


def _run(given: Seeds, words: list[str], folder: Path, cache: Path, path: str) -> str:
    """What it printed. cache: of its own for each, so that no import is left out."""
    environment = {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "CC")}
    environment |= {"NNKIT_CACHE": str(cache), "NNKIT_CONFIG": str(given.configuration)}
    environment["PATH"] = f"{path}{environment['PATH']}"
    environment["TMPDIR"] = str(cache.parent / _TEMPORARY)
    (cache.parent / _TEMPORARY).mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, str(given.scripts / words[0]), *words[1:]],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
        preexec_fn=_as_much_memory_as_before,
    )
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(words)} ended with code {done.returncode}\n{done.stdout}")
    return done.stdout


def _as_much_memory_as_before() -> None:
    """The limit of the process that tries inputs is not for the commands that it starts."""
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (most, most))

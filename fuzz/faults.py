"""Every write, creation and renaming fails once: `python -m fuzz.faults [SCENARIO...] [--json]`.

A scenario is run once to count its calls below its folder, and then once for each of them and each error (no
room, input/output error, no permission), which the call then ends with (`faults.c`, preloaded). After each: the error
is one of nnkit's with place and remedy, the last good result is there in every byte or the new one is, the same once
more without a fault succeeds, and then nothing else is left. Linux with a C compiler.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fuzz.interruption import run_command

ERRORS = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO, "EACCES": errno.EACCES}
_ROOT = "NNKIT_FAULTS_ROOT"
_MAX_FINDINGS = 20


@dataclass(frozen=True)
class Scenario:
    """prepare: makes the good result in a folder. act: makes another one over it. state: what is there, of interest:
    it must be as before `act`, or as after it. May `act` go on with a fault (the cache's do)?"""

    prepare: Callable[[Path], None]
    act: Callable[[Path], None]
    state: Callable[[Path], object]


def tree(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below a folder, by path; those that differ from run to run are left out."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "run.json"
    }


def _stage(folder: Path, content: str) -> None:
    from nnkit.report.staging import staged_build

    with staged_build(folder / "out/net/gap8") as staged:
        (staged.folder / "artifact").mkdir()
        for name in ("report.json", "artifact/net.c"):
            (staged.folder / name).write_text(content * 2000)
        staged.commit()


def _put(folder: Path, content: str) -> None:
    from nnkit.cache import StageCache

    cache = StageCache(folder / "cache")
    stored = cache.put("0" * 64, {"x": content.encode() * 2000})
    if not stored and not cache.notes:
        raise AssertionError("nothing stored, nothing said")


def _pack(folder: Path, content: str) -> None:
    from fuzz.packages import small_manifest
    from nnkit.package.archive import write_archive

    write_archive({"a": content.encode() * 2000, "b": b"b"}, small_manifest(), folder / "net.nnpkg")


def _extract(folder: Path) -> None:
    from nnkit.package import extract_package

    if not (folder / "extracted").exists():
        extract_package(folder / "net.nnpkg", folder / "extracted")


def _run(folder: Path, content: str) -> None:
    from fuzz.builds import small_build
    from nnkit import pipeline
    from nnkit.api.building import write_run_json
    from nnkit.cache import StageCache

    build = small_build(folder / "project", cache=StageCache(folder / "cache"), version=content)
    outcome = pipeline.run(build, folder / "out")
    write_run_json(outcome.folder, build, 0.0)


def _project(folder: Path) -> None:
    from fuzz.builds import write_project

    (folder / "project").mkdir()
    write_project(folder / "project")
    _run(folder, "1.0.0")


def _cached(folder: Path) -> object:
    """What the cache gives: an entry whole, or none."""
    from nnkit.cache import StageCache

    found = StageCache(folder / "cache").get("0" * 64)
    return None if found is None else dict(found)


SCENARIOS: Mapping[str, Scenario] = {
    "staging": Scenario(lambda f: _stage(f, "good"), lambda f: _stage(f, "new"), lambda f: tree(f / "out")),
    "cache": Scenario(lambda f: _put(f, "good"), lambda f: _put(f, "new"), _cached),
    "package": Scenario(lambda f: _pack(f, "good"), lambda f: _pack(f, "new"), tree),
    "extract": Scenario(lambda f: _pack(f, "good"), _extract, tree),
    "run": Scenario(_project, lambda f: _run(f, "2.0.0"), lambda f: tree(f / "out")),
}


def main(arguments: list[str] | None = None) -> int:
    """Print a row for each scenario; 1 where something was found."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.faults", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("scenarios", nargs="*", choices=[*SCENARIOS, []], help=f"{', '.join(SCENARIOS)}; else all")
    parser.add_argument("--every", type=int, default=1, help="only every nth point (1)")
    parser.add_argument("--in-turn", action="store_true", help="one error at each point, another at the next")
    parser.add_argument("--json", action="store_true", help="rows as JSON")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    names = options.scenarios or list(SCENARIOS)
    if options.inside is None:
        return _preloaded(names, options)
    rows = [_walk(name, Path(options.inside) / name, options.every, options.in_turn) for name in names]
    if options.json:
        print(json.dumps(rows))
    else:
        print("  ".join(f"{key:>10}" for key in rows[0]))
        for row in rows:
            print("  ".join(f"{value!s:>10}" for value in row.values()))
    return 1 if any(row["findings"] for row in rows) else 0


def _preloaded(names: list[str], options: argparse.Namespace) -> int:
    """The same in a process with the library that makes calls fail."""
    from nnkit.c.host_compiler import host_compiler

    compiler = host_compiler()
    if compiler is None or sys.platform != "linux":
        print("not run: needs Linux and a C compiler", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="nnkit_faults_") as name:
        folder = Path(name)
        library = folder / "faults.so"
        source = Path(__file__).with_suffix(".c")
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", str(source), "-o", str(library), "-ldl"], check=True)
        place = folder / "work"
        (folder / "tmp").mkdir()
        own = {"LD_PRELOAD": str(library), _ROOT: f"{place}/", "TMPDIR": str(folder / "tmp")}
        own["NNKIT_CONFIG"] = str(folder / "config")
        command = [sys.executable, "-m", "fuzz.faults", *names, "--every", str(options.every), "--inside", str(place)]
        flags = {"--json": options.json, "--in-turn": options.in_turn}
        return subprocess.run([*command, *(flag for flag in flags if flags[flag])], env=os.environ | own).returncode


def _walk(name: str, place: Path, every: int, in_turn: bool) -> dict[str, object]:
    """All points of one scenario, in folders made anew from a copy."""
    scenario, began = SCENARIOS[name], time.perf_counter()
    faults = ctypes.CDLL(None)
    faults.nnkit_faults_points.restype = ctypes.c_long
    faults.nnkit_faults_what.restype = ctypes.c_char_p
    faults.nnkit_faults_arm.argtypes = [ctypes.c_long, ctypes.c_int]
    faults.nnkit_faults_arm(-1, 0)
    good, work = place / "good", place / "work"
    good.mkdir(parents=True)
    scenario.prepare(good)

    def again() -> None:
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(good, work, symlinks=True)

    again()
    before = scenario.state(work)
    faults.nnkit_faults_arm(-1, 0)
    scenario.act(work)
    points = int(faults.nnkit_faults_points())
    after, left = scenario.state(work), _names(work)
    findings: list[str] = []
    tried = 0
    for number in range(0, points, every):
        for error in [list(ERRORS)[number // every % len(ERRORS)]] if in_turn else ERRORS:
            again()
            faults.nnkit_faults_arm(number, ERRORS[error])
            said = _attempt(scenario.act, work)
            where = (faults.nnkit_faults_what() or b"").decode()
            faults.nnkit_faults_arm(-1, 0)
            tried += 1
            found = _judge(scenario, work, said, (before, after), left)
            if found:
                findings.append(f"{name}, point {number}, {error}, {where}: {found}")
    for finding in findings[:_MAX_FINDINGS]:
        print(finding, file=sys.stderr)
    seconds = round(time.perf_counter() - began, 1)
    return {"scenario": name, "points": points, "faults": tried, "findings": len(findings), "seconds": seconds}


def _attempt(act: Callable[[Path], None], work: Path) -> str:
    """What went wrong in other words than nnkit's; empty where nothing did."""
    from nnkit.errors import NnkitError

    try:
        act(work)
    except NnkitError as error:
        return "" if error.where and error.remedy else f"no place or no remedy: {error}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _judge(scenario: Scenario, work: Path, said: str, states: tuple[object, object], left: set[str]) -> str:
    if said:
        return said
    there = scenario.state(work)
    if there not in states and there is not None:
        return "what is there is neither the last good one nor the new one"
    said = _attempt(scenario.act, work)
    if said or scenario.state(work) != states[1]:
        return f"the next one does not succeed: {said}"
    more = _names(work) - left
    return f"left behind: {', '.join(sorted(more)[:3])}" if more else ""


def _names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


if __name__ == "__main__":
    raise SystemExit(run_command(main))

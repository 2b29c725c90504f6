"""Runs killed at random moments: `python -m fuzz.kills --count N --seed S [--target T...] [--json]`.

A project is built for each target, then built again as another release and killed (SIGKILL) at a moment drawn from
the time that a whole run takes. After each kill: the last good build is there in every byte, or the new one whole;
nothing runs any more that the killed run started; the next run succeeds, and after it no temporary file is left,
beside the build, in the cache or among the system's temporary files.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from fuzz.faults import tree
from fuzz.interruption import run_command

TARGETS = {"gap8": "{}", "onnx_qdq": "{}", "nnie": "{chip: hi3516cv500, outside_limits: custom}"}
_GONE_SECONDS = 60.0  # to end what a killed run started; on a quiet machine it takes half a second
_MARK = "NNKIT_KILLS"
_TIME_FACTOR = "20"  # that a machine is busy with other work is no finding
_TOLD_EVERY = 10
_NOT_OURS = ".ses"  # one file of ONNX Runtime's own, the same in every run


def main(arguments: list[str] | None = None) -> int:
    """Print a row for each target; 1 where something was found."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.kills", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=9, help="kills in all, over the targets (9)")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other moments (0)")
    parser.add_argument("--target", action="append", choices=list(TARGETS), help="only this one (repeatable)")
    parser.add_argument(
        "--in-a-row", type=int, default=1, metavar="N", help="kills on each other's remains before a whole run (1)"
    )
    parser.add_argument("--json", action="store_true", help="rows as JSON")
    options = parser.parse_args(arguments)
    targets = options.target or list(TARGETS)
    rows = []
    for index, target in enumerate(targets):
        count = options.count // len(targets) + (index < options.count % len(targets))
        rows.append(_kills(target, count, options.in_a_row, random.Random(f"{options.seed} {target}")))
    if options.json:
        print(json.dumps(rows))
    else:
        print("  ".join(f"{key:>9}" for key in rows[0]))
        for row in rows:
            print("  ".join(f"{value!s:>9}" for value in row.values()))
    return 1 if any(row["findings"] for row in rows) else 0


def _kills(target: str, count: int, in_a_row: int, chance: random.Random) -> dict[str, object]:
    began = time.perf_counter()
    findings: list[str] = []
    killed = 0
    with tempfile.TemporaryDirectory(prefix="nnkit_kills_") as name, ExitStack() as ended:
        place = Place(Path(name), target)
        ended.callback(place.end)  # where this is interrupted; before the folder goes
        whole_seconds = place.run("1.0.0")
        good = place.state()
        after_kills: list[dict[str, str] | None] = []
        for number in range(count):
            after = chance.uniform(0.1, 1.0) * whole_seconds
            version = f"1.0.{number // in_a_row + 1}"
            killed += place.run_and_kill(version, after)
            found = place.still_running()
            after_kills.append(place.state())
            if not found and ((number + 1) % in_a_row == 0 or number + 1 == count):
                found = place.what_is_wrong(good, after_kills, version)
                good, after_kills = place.state(), []
            if found:
                findings.append(f"{target}, kill {number} after {after:.2f} s: {found}")
                break
            whole_seconds = place.seconds
            if (number + 1) % _TOLD_EVERY == 0:
                print(f"{target}: {number + 1} of {count} runs, {killed} killed", file=sys.stderr, flush=True)
    for finding in findings:
        print(finding, file=sys.stderr)
    seconds = round(time.perf_counter() - began, 1)
    return {"target": target, "runs": count, "killed": killed, "findings": len(findings), "seconds": seconds}


class Place:
    """A project with folders of its own for everything that a run writes; `cache` may be others' too."""

    def __init__(self, folder: Path, target: str, cache: Path | None = None) -> None:
        from fuzz.builds import write_project

        self.folder, self.target, self.cache = folder, target, cache or folder / "cache"
        for name in ("tmp", "project"):
            (folder / name).mkdir()
        write_project(folder / "project")
        recipe = folder / "project/recipe.yaml"
        recipe.write_text(recipe.read_text().replace("onnx_qdq: {}", f"{target}: {TARGETS[target]}"))
        self.build = folder / "out/small" / target
        self.seconds = 0.0
        self._ended = False
        self.environment = {"NNKIT_TIME_FACTOR": _TIME_FACTOR} | os.environ
        self.environment |= {
            "NNKIT_CACHE": str(self.cache),
            "NNKIT_CONFIG": str(folder / "config"),
            "TMPDIR": str(folder / "tmp"),
            _MARK: str(folder),
        }

    def start(self, version: str) -> subprocess.Popen[bytes]:
        """A run of this release; every second one stores its stages."""
        command = [sys.executable, "-m", "nnkit", "run", "project/recipe.yaml", "--out", "out", "--no-cache"]
        if int(version.rpartition(".")[2]) % 2:
            command.pop()
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment | {"VERSION": version},
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / "stderr.txt").open("wb"),
        )

    def begin(self, version: str) -> subprocess.Popen[bytes]:
        """As `start`; `end` kills it, from another thread too."""
        process = self.start(version)
        if self._ended:
            process.kill()
        return process

    def end(self) -> None:
        """Kill whatever runs here, and wait until it has ended. No run follows."""
        self._ended = True
        # By their mark: where an interruption falls into the start of a process, nobody holds it.
        while marked := list(self._marked()):
            for number, _ in marked:
                with suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            time.sleep(0.02)

    def run(self, version: str) -> float:
        """A whole run; its seconds. Raises RuntimeError where it fails."""
        began = time.perf_counter()
        if self.begin(version).wait() != 0:
            raise RuntimeError((self.folder / "stderr.txt").read_text()[-2000:])
        self.seconds = time.perf_counter() - began
        return self.seconds

    def run_and_kill(self, version: str, after_seconds: float) -> bool:
        """Whether it was killed before it had ended by itself."""
        process = self.begin(version)
        try:
            process.wait(after_seconds)
            return False
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return True

    def still_running(self) -> str:
        """What a killed run started and nothing ended; empty where all has ended."""
        end = time.monotonic() + _GONE_SECONDS
        while running := list(self.running()):
            if time.monotonic() > end:
                return f"still running: {running}"
            time.sleep(0.05)
        return ""

    def state(self) -> dict[str, str] | None:
        """The build's files; None between the two renames, where the next run has to put it back."""
        return tree(self.build) if self.build.exists() else None

    def what_is_wrong(self, good: dict[str, str] | None, after_kills: Sequence[object], version: str) -> str:
        """After a whole run of the same release as the killed ones; empty where nothing is."""
        try:
            self.run(version)
        except RuntimeError as error:
            return f"the next run fails: {error}"
        if any(there not in (good, self.state(), None) for there in after_kills):
            return "the last good build was changed"
        left = [str(path) for path in self.left()]
        return f"left behind: {', '.join(left[:5])}" if left else ""

    def running(self) -> Iterator[str]:
        """Command lines of the processes with this place's mark among their variables."""
        return (line for _, line in self._marked())

    def _marked(self) -> Iterator[tuple[int, str]]:
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                if f"{_MARK}={self.folder}".encode() in path.read_bytes().split(b"\0"):
                    yield int(path.parent.name), (path.parent / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue

    def left(self) -> Iterator[Path]:
        """Temporary files."""
        yield from (path for path in (self.folder / "tmp").iterdir() if path.name != _NOT_OURS)
        yield from (path for path in self.build.parent.iterdir() if path != self.build)
        yield from self.cache.rglob("*.tmp")
        yield from self.build.rglob("*.owner")


if __name__ == "__main__":
    if shutil.which("sh") is None or sys.platform != "linux":
        raise SystemExit("not run: needs Linux")
    raise SystemExit(run_command(main))

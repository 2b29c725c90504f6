"""Runs at once that share a cache, some of them killed: `python -m fuzz.soak [--runs N] [--minutes M] [--seed S]`.

Each of N places has a project, a build and temporary files of its own; the cache is everybody's. In each place runs
follow one another until the time is over: every third one is killed (SIGKILL) at a random moment. Every whole run
succeeds and gives, in every byte, the build of its release that a run alone gave before; a damaged or half written
entry would show there. At the end one run more succeeds in every place, nothing runs any more, and no temporary file
is left. It takes the given minutes, and as long as one run more in every place.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fuzz.faults import tree
from fuzz.interruption import run_command
from fuzz.kills import TARGETS, Place

_RUN_SECONDS = 900.0  # of one run among all the others; a run that takes longer hangs
_KILLED_SHARE = 1 / 3
_FIRST_SECONDS = 2.0  # a run is killed within the longest so far, or within these
_GONE_SECONDS = 60.0
_RELEASES = ("1.0.1", "1.0.3")  # odd ones: both store their stages


def main(arguments: list[str] | None = None) -> int:
    """Print a row; 1 where something was found."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.soak", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=16, help="runs at once (16)")
    parser.add_argument("--minutes", type=float, default=5.0, help="how long runs are started (5)")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other moments (0)")
    parser.add_argument("--target", action="append", choices=list(TARGETS), help="only this one (repeatable)")
    parser.add_argument("--json", action="store_true", help="the row as JSON")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="nnkit_soak_") as folder:
        row, findings = soak(
            Path(folder), options.target or list(TARGETS), options.runs, 60 * options.minutes, options.seed
        )
    for finding in findings:
        print(finding, file=sys.stderr)
    print(json.dumps(row) if options.json else "  ".join(f"{key} {value}" for key, value in row.items()))
    return 1 if findings else 0


def soak(
    folder: Path, targets: Sequence[str], runs: int, seconds: float, seed: int
) -> tuple[dict[str, Any], list[str]]:
    """The row, and what was found, with the place's number."""
    began = time.monotonic()
    wanted = _references(folder / "references", targets)
    places = [Place(_made(folder / str(n)), targets[n % len(targets)], folder / "cache") for n in range(runs)]
    slots = [_Slot(n, place, wanted[place.target], seed) for n, place in enumerate(places)]
    end = time.monotonic() + seconds
    with ThreadPoolExecutor(runs) as pool:
        try:
            list(pool.map(lambda slot: slot.work(end), slots))
            list(pool.map(_Slot.finish, slots))
        except BaseException:  # interrupted: no thread may wait for a run that goes on
            for slot in slots:
                slot.stop()
            raise
    findings = [finding for slot in slots for finding in slot.findings]
    row = {"at_once": runs, "whole": sum(slot.whole for slot in slots), "killed": sum(slot.killed for slot in slots)}
    return row | {"findings": len(findings), "seconds": round(time.monotonic() - began, 1)}, findings


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def _references(folder: Path, targets: Sequence[str]) -> dict[str, dict[str, dict[str, str]]]:
    """What a run without others and with an empty cache gives, by target and release."""
    given: dict[str, dict[str, dict[str, str]]] = {}
    for target in targets:
        place = Place(_made(folder / target), target)
        given[target] = {}
        try:
            for release in _RELEASES:
                shutil.rmtree(place.cache, ignore_errors=True)
                place.run(release)
                given[target][release] = _build(place)
        finally:
            place.end()
    return given


def _build(place: Place) -> dict[str, str]:
    """Digests of a build's files; run.json and the page that shows it tell of the run, and differ."""
    return {name: digest for name, digest in tree(place.build).items() if name not in ("run.json", "report.html")}


class _Slot:
    """One place after the other's runs; at most one runs at a time."""

    def __init__(self, number: int, place: Place, wanted: dict[str, dict[str, str]], seed: int) -> None:
        self.number, self.place, self.wanted = number, place, wanted
        self.chance = random.Random(f"{seed} {number}")
        self.findings: list[str] = []
        self.whole = self.killed = 0
        self.longest = _FIRST_SECONDS
        self.stopped = False

    def stop(self) -> None:
        """End the run that goes on; no other follows. From another thread than that of `work` and `finish`."""
        self.stopped = True
        self.place.end()

    def work(self, end: float) -> None:
        """Runs until `end`, or the first finding."""
        while time.monotonic() < end and not self.findings and not self.stopped:
            release = self.chance.choice(_RELEASES)
            if self.chance.random() < _KILLED_SHARE:
                self.killed += self.place.run_and_kill(release, self.chance.uniform(0.05, 1.0) * self.longest)
            else:
                self._run(release)

    def finish(self) -> None:
        """One run more, and nothing is left of all before."""
        if self.findings or self.stopped:
            return
        self._run(_RELEASES[0])
        deadline = time.monotonic() + _GONE_SECONDS
        while (running := list(self.place.running())) and time.monotonic() < deadline:
            time.sleep(0.1)
        if running:
            self._found(f"still running: {running}")
        # The cache is swept by whoever comes next: other places may just have written there.
        left = [str(path) for path in self.place.left() if not path.is_relative_to(self.place.cache)]
        if left:
            self._found(f"left behind: {', '.join(left[:5])}")

    def _run(self, release: str) -> None:
        began = time.monotonic()
        process = self.place.begin(release)
        watch = threading.Timer(_RUN_SECONDS, process.kill)
        watch.start()
        code = process.wait()
        watch.cancel()
        if code != 0:
            said = (self.place.folder / "stderr.txt").read_text()[-2000:]
            self._found(f"{release}: exit code {code} after {time.monotonic() - began:.0f} s: {said}")
            return
        self.whole += 1
        self.longest = max(self.longest, time.monotonic() - began)
        new, good = _build(self.place), self.wanted[release]
        apart = sorted(name for name in new.keys() | good.keys() if new.get(name) != good.get(name))
        if apart:
            self._found(f"{release}: {', '.join(apart[:5])} differ from a run alone")

    def _found(self, said: str) -> None:
        self.findings.append(f"place {self.number}, {self.place.target}: {said}")


if __name__ == "__main__":
    if shutil.which("sh") is None or sys.platform != "linux":
        raise SystemExit("not run: needs Linux")
    raise SystemExit(run_command(main))

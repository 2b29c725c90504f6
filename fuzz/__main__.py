"""The command: `python -m fuzz CLASS|all --count N --seed S [--json]`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from fuzz import NothingToTryError
from fuzz.classes import CLASSES
from fuzz.interruption import run_command
from fuzz.trial import Tally, try_inputs

_CHUNK = 500
"""Inputs between two writings of the checkpoint at first; more where they are quick."""
_LARGEST_CHUNK = 20000
_CHUNK_SECONDS = 30


def main(arguments: list[str] | None = None) -> int:
    """Print a row for each class; 1 where something was found, or nothing could be tried."""
    parser = argparse.ArgumentParser(
        prog="python -m fuzz",
        description="Damaged files against nnkit's readers: no traceback, no 20 seconds, no gigabyte.",
    )
    parser.add_argument("name", metavar="CLASS", choices=[*CLASSES, "all"], help=f"{', '.join(CLASSES)} or all")
    parser.add_argument("--count", type=int, default=1000, help="inputs of each class (1000)")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other inputs (0)")
    parser.add_argument("--first", type=int, default=0, help="number of the first input, to see one again (0)")
    parser.add_argument(
        "--checkpoint", type=Path, metavar="FILE", help="remember what was tried, and go on from there: for long runs"
    )
    parser.add_argument("--json", action="store_true", help="rows as JSON")
    options = parser.parse_args(arguments)
    rows = []
    for name in CLASSES if options.name == "all" else [options.name]:
        try:
            tally, seconds = _tried(name, options)
        except NothingToTryError as error:
            print(f"{name}: not tried: {error}", file=sys.stderr)
            continue
        rows.append(
            {
                "class": name,
                "inputs": options.count,
                "tracebacks": tally.counts.get("traceback", 0),
                "hangs": tally.counts.get("hang", 0),
                "over_memory": tally.counts.get("over_memory", 0),
                "no_remedy": tally.counts.get("no_remedy", 0),
                "refused": tally.counts.get("refused", 0),
                "seconds": round(seconds, 1),
            }
        )
        for number, kind, said in tally.findings[:10]:
            print(f"{name}, seed {options.seed}, input {number}: {kind}\n{said}", file=sys.stderr)
    if options.json:
        print(json.dumps(rows))
    elif rows:
        print("  ".join(f"{key:>11}" for key in rows[0]))
        for row in rows:
            print("  ".join(f"{value:>11}" for value in row.values()))
    return (
        1
        if not rows or any(row[key] for row in rows for key in ("tracebacks", "hangs", "over_memory", "no_remedy"))
        else 0
    )


def _tried(name: str, options: argparse.Namespace) -> tuple[Tally, float]:
    """All inputs of a class, and the seconds they took; those that the checkpoint has are not tried again."""
    key = f"{name} {options.seed} {options.first}"
    stored = json.loads(options.checkpoint.read_text()) if options.checkpoint and options.checkpoint.exists() else {}
    done = stored.get(key, {"inputs": 0, "seconds": 0.0, "counts": {}, "findings": []})
    chunk = _CHUNK if options.checkpoint else options.count
    while done["inputs"] < options.count:
        began = time.perf_counter()
        count = min(chunk, options.count - done["inputs"])
        tally = try_inputs(name, count, options.seed, options.first + done["inputs"])
        done["inputs"] += count
        seconds = time.perf_counter() - began
        done["seconds"] += seconds
        if seconds < _CHUNK_SECONDS:
            chunk = min(4 * chunk, max(_LARGEST_CHUNK, chunk))
        done["findings"] += [list(finding) for finding in tally.findings]
        for kind, number in tally.counts.items():
            done["counts"][kind] = done["counts"].get(kind, 0) + number
        if options.checkpoint:
            made = options.checkpoint.with_name(options.checkpoint.name + ".new")
            made.write_text(json.dumps(stored | {key: done}))
            made.replace(options.checkpoint)
    return Tally(done["counts"], [tuple(finding) for finding in done["findings"]]), done["seconds"]


if __name__ == "__main__":
    raise SystemExit(run_command(main))

"""The offset allocator on MiniMalloc's published hard instances (A to K) and on the lifetimes of real networks.

    NNKIT_SHARED=<folder> python -m benchmarks.allocation [--json] [--only A,unet256]

Instances: `<folder>/allocation/*.1048576.csv` and `<folder>/allocation/nets/*.csv` (id, lower, upper, size; upper is
excluded). The hard ones are to be packed within 1,048,576 bytes, which takes the extra `[solver]`; the networks take
the core alone. `certificate`: "optimal" (the peak equals a proven lower bound) or "gap".
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from pathlib import Path

from benchmarks.networks import shared_folder
from nnkit.memory import race
from nnkit.memory.engine import Effort, Item, Solution, solve
from nnkit.memory.packing import Packing

CAPACITY_BYTES = 1_048_576
# The hard instances are known to be beyond the core's own search: with the extra, go to it after first fit.
HARD = Effort(climb_steps=0, search_nodes=0, solver_nodes=300_000)
# As the core alone does it, also where the extra is installed.
CORE = Effort()


def read_items(path: Path) -> tuple[Item, ...]:
    """Items of a CSV file; entries that never live are left out."""
    with open(path, newline="") as file:
        rows = [row for row in csv.DictReader(file) if int(row["upper"]) > int(row["lower"])]
    return tuple(
        Item(f"{number}:{row['id']}", int(row["size"]), int(row["lower"]), int(row["upper"]) - 1)
        for number, row in enumerate(rows)
    )


def check(items: tuple[Item, ...], solution: Solution) -> None:
    """Raise SystemExit where two live items share a byte or one ends above the peak. Independent."""
    offsets = solution.offsets_bytes
    for i, a in enumerate(items):
        if not 0 <= offsets[a.id] <= solution.peak_bytes - a.size_bytes:
            raise SystemExit(f"{a.id} lies outside the peak")
        for b in items[i + 1 :]:
            apart_in_time = a.last_step < b.first_step or b.last_step < a.first_step
            above = offsets[a.id] >= offsets[b.id] + b.size_bytes or offsets[b.id] >= offsets[a.id] + a.size_bytes
            if not apart_in_time and not above:
                raise SystemExit(f"{a.id} and {b.id} overlap")


def measure(path: Path, hard: bool) -> dict[str, object]:
    """One row."""
    items = read_items(path)
    begin = time.perf_counter()
    if hard:
        solution = solve(items, HARD if race.is_installed() else None, goal_bytes=CAPACITY_BYTES)
    else:
        solution = solve(items, CORE)
    seconds = time.perf_counter() - begin
    check(items, solution)
    return {
        "instance": path.name.split(".")[0] if hard else path.stem,
        "items": len(items),
        "peak_bytes": solution.peak_bytes,
        "lower_bound_bytes": solution.lower_bound_bytes,
        "certificate": "optimal" if solution.proven_optimal else "gap",
        "seconds": round(seconds, 3),
        "method": solution.certificate.method,
        "nodes": solution.certificate.search_nodes,
    }


def main() -> None:
    """Print one row an instance."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="rows as JSON")
    parser.add_argument("--only", help="instances, separated by commas")
    arguments = parser.parse_args()
    shared = shared_folder()
    if shared is None:
        raise SystemExit("set NNKIT_SHARED to the folder that has allocation/")
    folder = shared / "allocation"
    jobs = [(path, True) for path in sorted(folder.glob(f"*.{CAPACITY_BYTES}.csv"))]
    jobs += [(path, False) for path in sorted((folder / "nets").glob("*.csv"))]
    if arguments.only:
        wanted = set(arguments.only.split(","))
        jobs = [(p, hard) for p, hard in jobs if (p.name.split(".")[0] if hard else p.stem) in wanted]
    if race.is_installed() and any(hard for _, hard in jobs):
        race.fit_within(Packing.of([Item("a", 1, 0, 1)]), 1, 1)  # not measured: compiling, or loading the result
    rows = []
    for path, hard in jobs:
        rows.append(measure(path, hard))
        if not arguments.json:
            row = rows[-1]
            print(
                f"{row['instance']!s:18} {row['items']:>5} items  peak {row['peak_bytes']:>9}"
                f"  bound {row['lower_bound_bytes']:>9}  {row['certificate']!s:8} {row['seconds']:>7} s"
                f"  {row['method']}",
                flush=True,
            )
    if arguments.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()

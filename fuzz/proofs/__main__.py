"""`python -m fuzz.proofs BUILD... [--by eva|cbmc] [--json]`: the kernels of GAP8 builds, proven for all inputs.

Every different layer of the build's program is made smaller (few channels, few rows), emitted as the build was, and
its C interpreted by Frama-C's Eva on intervals: no access outside a tensor, the weights or the scratch, no overflow
of signed integers, no undefined shift, nothing read before it is written, no value stored that its type cannot hold.
Or CBMC decides it bit by bit: no access outside, no overflow of signed integers, no undefined shift, no division by
zero, loops that end. A row is a layer.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuzz.interruption import run_command
from fuzz.proofs import cbmc
from fuzz.proofs.eva import COMMAND, interpret
from fuzz.proofs.harness import PARTS, harness
from fuzz.proofs.small_ops import FEW_ROWS, LEAST, small_programs, smaller

if TYPE_CHECKING:
    from nnkit.program import Program

_PROVERS = {
    "eva": (COMMAND, "Debian's package frama-c-base has it"),
    "cbmc": (cbmc.COMMAND, "Debian's package cbmc has it (6 or later: Debian 13)"),
}


def main(arguments: list[str] | None = None) -> int:
    """Print a row for each layer; 1 where something is not proven, 5 without the prover."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.proofs", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("build", nargs="+", type=Path, help="a build folder of the target gap8")
    parser.add_argument("--by", choices=list(_PROVERS), default="eva", help="Frama-C's Eva (default), or CBMC")
    parser.add_argument("--json", action="store_true", help="rows as JSON")
    options = parser.parse_args(arguments)
    command, where = _PROVERS[options.by]
    if shutil.which(command) is None:
        print(f"not run: no {command}; {where}", file=sys.stderr)
        return 5
    rows = []
    for build in options.build:
        for row in _rows(build, options.by):
            rows.append(row)
            if not options.json:
                print("  ".join(f"{key} {value}" for key, value in row.items() if key != "alarms"), flush=True)
                for alarm in row["alarms"]:
                    print(f"    {alarm}")
    if options.json:
        print(json.dumps(rows))
    return 0 if all(row["status"] in ("proven", "left out") for row in rows) else 1


def _rows(build: Path, by: str) -> Iterator[dict[str, Any]]:
    from nnkit.builds import open_build

    program = open_build(build).program
    for op, small in small_programs(program):
        shape = "x".join(map(str, program.tensors[op.output].shape))
        row: dict[str, Any] = {"layer": op.name, "kind": op.kind, "shape": shape}
        if small is None:
            yield row | {"proven_shape": "", "status": "left out", "weights": "", "alarms": [], "seconds": 0.0}
            continue
        began = time.perf_counter()
        row["proven_shape"] = "x".join(map(str, small.tensors["y"].shape))
        with tempfile.TemporaryDirectory(prefix="nnkit_proofs_") as folder:
            if by == "eva":
                row |= proof(small, Path(folder))
            else:
                small = smaller(op, program, FEW_ROWS) or small
                row["proven_shape"] = "x".join(map(str, small.tensors["y"].shape))
                row |= decision(small, smaller(op, program, LEAST) or small, Path(folder))
        yield row | {"seconds": round(time.perf_counter() - began, 1)}


def proof(program: Program, folder: Path) -> dict[str, Any]:
    """A program of one layer, proven in `folder`: `status`, `weights`, `alarms`.

    weights: `any`, or the layer's `own` where any would not do: biases of 64 bits and slopes of 16 have limits.
    """
    sources = write_sources(program, folder)
    found: dict[str, Any] = {}
    for weights in ("any", "own"):
        alarms: list[str] = []
        status = "proven"
        for parts in PARTS:
            verdict = interpret(folder, sources, [f"PARTS={parts}", *(["ANY_WEIGHTS"] if weights == "any" else [])])
            alarms += verdict.alarms
            status = verdict.unfinished or status
        found = {"status": "alarms" if alarms and status == "proven" else status, "weights": weights}
        found["alarms"] = sorted(set(alarms))
        if found["status"] != "alarms":
            break
    return found


def decision(small: Program, least: Program, folder: Path) -> dict[str, Any]:
    """What CBMC says of a program of one layer: `status`, `weights`, `alarms`, `checks` (how many it decided).

    All checks but overflow for the layer `small`, in parts; all of them for `least`, whose products are fewer.
    weights: as in `proof`.
    """
    row: dict[str, Any] = {}
    for weights in ("any", "own"):
        alarms: list[str] = []
        status, checks = "proven", 0
        for program, parts in ((small, PARTS[-1]), (least, PARTS[0])):
            sources = write_sources(program, folder)
            defined = [f"PARTS={parts}", *(["ANY_WEIGHTS"] if weights == "any" else [])]
            verdict, decided = cbmc.check(folder, sources, defined, overflow=program is least)
            alarms += verdict.alarms
            status = verdict.unfinished or status
            checks += decided
        row = {"status": "alarms" if alarms and status == "proven" else status, "weights": weights, "checks": checks}
        row["alarms"] = sorted(set(alarms))
        if row["status"] != "alarms":
            break
    return row


def write_sources(program: Program, folder: Path) -> list[str]:
    """Write the C of a program of one layer with the harness around it; the names of the files to interpret."""
    from nnkit_gap8.checked_plan import checked_plan
    from nnkit_gap8.emit import emit_artifact
    from nnkit_gap8.options import Gap8Options

    options = Gap8Options(op_order="given")
    plan = checked_plan(program, options)
    files = emit_artifact(program, plan, options.core_machine())
    blob = files["weights.bin"]
    files = {name: content for name, content in files.items() if "/" not in name}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "harness.c").write_text(harness(program, plan, blob), encoding="utf-8")
    return ["harness.c", *sorted(name for name in files if name.endswith(".c") and name != "net.c")]


if __name__ == "__main__":
    raise SystemExit(run_command(main))

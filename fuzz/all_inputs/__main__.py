"""`python -m fuzz.all_inputs [TARGET...] [--only TEXT] [--json]`: kernels against their operators' definitions.

The C of a program of one operator is compiled as the target's runner does and gets every value, or every pair of
values, that its inputs can have. What comes out is compared with the operator's definition in exact numbers, written
here a second time, without the simulator. A row is an operator with its formats.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.all_inputs import affine, fixed
from fuzz.all_inputs.case import Case
from fuzz.interruption import run_command

TARGETS = {"gap8": fixed.cases, "ansi_c": affine.cases}


def main(arguments: list[str] | None = None) -> int:
    """Print a row for each case; 1 where an output is not what the definition says."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.all_inputs", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("target", nargs="*", help=f"{' or '.join(TARGETS)} (both)")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name has this text")
    parser.add_argument("--json", action="store_true", help="rows as JSON")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.target if name not in TARGETS]
    if unknown:
        parser.error(f"no target {unknown[0]!r}: {' or '.join(TARGETS)}")
    wanted = options.target or list(TARGETS)
    rows = []
    for case in chain.from_iterable(TARGETS[name]() for name in wanted):
        if options.only not in case.name:
            continue
        rows.append(row(case))
        if not options.json:
            print("  ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    if options.json:
        print(json.dumps(rows))
    elif rows:
        inputs, wrong = (sum(each[key] for each in rows) for key in ("inputs", "wrong"))
        print(f"{len(rows)} cases, {inputs:,} inputs, {wrong:,} wrong")
    if not rows:
        print(f"no case has {options.only!r} in its name", file=sys.stderr)
    return 1 if not rows or any(each["wrong"] for each in rows) else 0


def row(case: Case) -> dict[str, Any]:
    """A case, run in a folder of its own."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="nnkit_all_inputs_") as name:
        artifact = emitted(case, Path(name))
        wrong = differing(case, artifact)
    seconds = round(time.perf_counter() - began, 1)
    return {
        "target": case.target,
        "case": case.name,
        "inputs": case.inputs,
        "outputs": case.expected.size,
        "wrong": len(wrong),
        "first": wrong[0] if wrong else "",
        "seconds": seconds,
    }


def emitted(case: Case, folder: Path) -> Path:
    """The artifact of a case, written into `folder`."""
    return _emitted_gap8(case, folder) if case.target == "gap8" else _emitted_ansi_c(case, folder)


def differing(case: Case, artifact: Path) -> list[str]:
    """Places where the C gives something else than the definition says: the inputs there are found by their index."""
    from nnkit_ansi_c.integer_runner import IntegerHostRunner
    from nnkit_gap8.runners import HostRunner

    runner: Any = HostRunner() if case.target == "gap8" else IntegerHostRunner()
    (result,) = runner.run(artifact, case.program, [case.given], trace=False)
    (values,) = result.outputs.values()
    return list(_differences(case, values.reshape(case.expected.shape)))


def _differences(case: Case, values: Any) -> Iterator[str]:
    apart = np.abs(values.astype(np.float64) - case.expected.astype(np.float64))
    for index in np.argwhere(apart > case.off_by):
        place = tuple(int(each) for each in index)
        yield f"{place}: {values[place]}, not {case.expected[place]}"


def _emitted_gap8(case: Case, folder: Path) -> Path:
    from nnkit_gap8.checked_plan import checked_plan
    from nnkit_gap8.emit import emit_artifact
    from nnkit_gap8.options import Gap8Memory, Gap8Options

    # Room for every input at a time.
    options = Gap8Options(op_order="given", memory=Gap8Memory(l2=8 << 20, larger_chip=True))
    plan = checked_plan(case.program, options)
    for name, content in emit_artifact(case.program, plan, options.core_machine()).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def _emitted_ansi_c(case: Case, folder: Path) -> Path:
    from nnkit_ansi_c.integer_emit import emit_integer_library
    from nnkit_ansi_c.integer_network import IntegerNetwork
    from nnkit_ansi_c.options import AnsiCOptions

    emit_integer_library(IntegerNetwork.of(case.program), AnsiCOptions(precision="int8"), folder)
    return folder


if __name__ == "__main__":
    raise SystemExit(run_command(main))

"""Milliseconds per inference of the bit-exact simulator and of its peers, and seconds of `nnkit run`.

    python -m benchmarks.simulator [--networks A,B] [--repeats N] [--no-runs] [--json]

One thread each (ONNX Runtime also with two). All but ONNX Runtime compute the same integers, which is checked; it
computes the float network. The least of `repeats` runs counts. Then `nnkit run` of a shipped recipe, with an empty
cache and a full one (--no-runs: not).
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.building import Built, Workshop
from benchmarks.networks import REPOSITORY, available, shared_folder
from benchmarks.plain_network import STYLES
from benchmarks.plain_run import run_plain
from benchmarks.reference import reference
from benchmarks.table import Row, ratio, show
from nnkit.program import macs
from nnkit.simulate import simulate
from nnkit_gap8.runners import HostRunner, execute_on_host

_NNKIT = (sys.executable, "-c", "from nnkit.cli import main; main()")
_BATCH = 8  # inferences per process of the generated C: its start-up is measured apart and taken off


def inference_rows(workshop: Workshop, name: str, built: Built, repeats: int) -> list[Row]:
    """One row per implementation: milliseconds, million MACs per second, and the ratio to the simulator."""
    program, inputs = built.program, built.inputs
    expected = simulate(program, inputs)
    times: dict[str, float | None] = {"nnkit simulator": _least(lambda: simulate(program, inputs), repeats)}
    try:
        found = reference(program, inputs)
        if any(not np.array_equal(found[key], expected[key]) for key in found):
            raise SystemExit("the reference and the simulator differ")
        times["int64 numpy"] = _least(lambda: reference(program, inputs), min(repeats, 2))
    except NotImplementedError:
        times["int64 numpy"] = None
    times["generated C, host -O2"] = _generated(workshop, built, repeats) or None  # too short to measure
    for style in STYLES:
        with tempfile.TemporaryDirectory(prefix="nnkit-plain-") as folder:
            place = Path(folder) / "c"
            counts = run_plain(program, inputs, expected, place, style=style, machine="host", optimisation="-O2")
        times[f"{style} C, host -O2"] = sum(counts.values()) / 1e9
    for threads in (1, 2):
        label = f"ONNX Runtime float, {threads} thread" + ("s" if threads > 1 else "")
        times[label] = _onnx_runtime(built, threads, repeats)
    count = sum(macs(op, program) for op in program.ops)
    ours = times["nnkit simulator"]
    rows: list[Row] = []
    for implementation, seconds in times.items():
        speed = round(count / seconds / 1e6, 1) if seconds else None
        row: dict[str, str | int | float | None] = {"network": name, "implementation": implementation}
        row["ms"] = round(1000 * seconds, 2) if seconds is not None else None
        rows.append(row | {"million MACs/s": speed, "time/simulator": ratio(seconds, ours)})
    return rows


def run_rows(folder: Path) -> list[Row]:
    """Seconds of whole runs of a shipped recipe, with an empty cache and with a full one."""
    own = REPOSITORY / "recipes" / "gap8_reid"
    recipe = own / "recipe.yaml"
    if not (own / "reid.onnx").is_file():
        recipe = REPOSITORY / "recipes" / "gap8_reid_published" / "recipe.yaml"
        if shared_folder() is None:
            return []
    rows: list[Row] = []
    for label, flags in (("without QEMU", ["--no-qemu"]), ("with QEMU", [])):
        row: dict[str, str | int | float | None] = {"nnkit run": label}
        for state in ("cold", "warm"):
            place = folder / label.replace(" ", "_")
            began, began_cpu = time.perf_counter(), _children_cpu_s()
            done = subprocess.run(
                [*_NNKIT, "run", str(recipe), *flags, "--out", str(place / "out")],
                env={**os.environ, "NNKIT_CACHE": str(place / "cache")},
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                raise SystemExit(f"nnkit run ended with {done.returncode}\n{done.stderr[-2000:]}")
            row[f"{state} s"] = round(time.perf_counter() - began, 2)
            row[f"{state} CPU s"] = round(_children_cpu_s() - began_cpu, 2)
        rows.append(row)
    return rows


def _generated(workshop: Workshop, built: Built, repeats: int) -> float:
    """Seconds per inference of the emitted C on this host, all parts one after another."""
    artifact = workshop.artifact(built)
    with tempfile.TemporaryDirectory(prefix="nnkit-host-") as name:
        binary = HostRunner().compile(artifact, Path(name), trace=False)

        def run(count: int) -> None:
            execute_on_host(binary, artifact, built.program, [built.inputs] * count, parts=1, trace=False)

        several, one = _least(lambda: run(1 + _BATCH), repeats), _least(lambda: run(1), repeats)
    return max(several - one, 0.0) / _BATCH


def _onnx_runtime(built: Built, threads: int, repeats: int) -> float:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    model = built.imported.model.onnx_bytes
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feeds = {name: np.asarray(value, np.float32) for name, value in built.sample.inputs.items()}
    return _least(lambda: session.run(None, feeds), repeats)


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _least(work: Callable[[], object], repeats: int) -> float:
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulator")
    parser.add_argument("--networks", help="names, separated by commas (also: tiny); default: one face network")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-runs", action="store_true", help="do not time `nnkit run`")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nnkit-bench-") as name:
        workshop = Workshop(Path(name))
        networks = available(Path(name), arguments.networks.split(",") if arguments.networks else None)
        if not arguments.networks:
            networks = networks[:1]
        rows: list[Row] = []
        for network in networks:
            built = workshop.program(network, "precision: int16")
            rows += inference_rows(workshop, network.name, built, arguments.repeats)
        runs = [] if arguments.no_runs else run_rows(Path(name))
    if arguments.json:
        show([*rows, *runs], as_json=True)
        return
    show(rows, as_json=False, title="One inference, int16 `wide`")
    if runs:
        show(runs, as_json=False, title="The shipped recipe")


if __name__ == "__main__":
    main()

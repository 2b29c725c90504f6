"""Our layer groups against the vendor's, by the vendor's own measure.

    python -m benchmarks.tpu_layer_group [--nets squeezenet,unet] [--chips bm1688,cv181x]
        [--modes INT8,F16,BF16] [--batches 1,4] [--cores 1,2] [--layer-group ours,measured] [--chip-model]

A cell is a network, chip, precision, batch and number of cores; what a chip does not have is left out (F16 on the
cv18xx, two cores but on the bm1688). In every cell the compiler groups by itself, then ours are compiled as the
recipe's `layer_group` says: within five compilations (`ours`), or with what lies around them (`measured`). Cycles are
those of its simulator (BM chips), loads, stores and bytes those of its final program. `audit` is the replay of the
local memory of the chosen program: how many actions it has, or the first conflict. Without the toolchain nothing is
compared, and the benchmark says so. A row is written to stderr as soon as it is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.table import Row, show
from benchmarks.tpu_lowered import batched, lowered_program, tpu_graph
from benchmarks.tpu_networks import BUILDERS, build
from nnkit.errors import NnkitError
from nnkit_tpu.chips import Chip, chip_named
from nnkit_tpu.compile import CompileOptions, model_file
from nnkit_tpu.layer_group.cost import CostModel
from nnkit_tpu.layer_group.few_trials import few_trials
from nnkit_tpu.layer_group.injection import Outcome, compile_groups
from nnkit_tpu.layer_group.tune import VENDORS_CUTS, Budget, Check, Tuning, tune
from nnkit_tpu.program import TpuGraph
from nnkit_tpu.toolchain.find import Toolchain, find_toolchain

NETWORKS = (*BUILDERS, "rfb320")
CHIP_NAMES = ("bm1684x", "bm1688", "cv181x")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; the exit code is 1 where ours is worse than allowed, or the audit finds a conflict."""
    options = _options().parse_args(arguments)
    toolchain = find_toolchain()
    if toolchain is None:
        sys.stderr.write(
            "the TPU toolchain is not installed: run `nnkit doctor --install tpu`; nothing was measured\n"
        )
        return 0
    shared = Path(os.environ["NNKIT_SHARED"]) if "NNKIT_SHARED" in os.environ else None
    budget = Budget(options.groups, options.steps, options.orders)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="nnkit-groups-") as temporary:
        for name in options.nets.split(","):
            proto = build(name, shared=shared)
            if proto is None:
                sys.stderr.write(f"{name}: its model is not here (NNKIT_SHARED); left out\n")
                continue
            graph = tpu_graph(proto, name, Path(temporary) / name)
            for number, (images, how) in enumerate(_cells(options)):
                folder = Path(temporary) / name / str(number)
                cell = {"net": name, "chip": how.chip, "mode": how.mode, "batch": images, "cores": how.cores}
                for search in options.layer_group.split(","):
                    started = time.monotonic()
                    few = search == "ours"
                    row = measure(toolchain, graph, images, folder, how, None if few else budget, options.chip_model)
                    took = round(time.monotonic() - started, 1)
                    rows.append({**cell, "layer_group": search, **row, "seconds": took})
                    sys.stderr.write(f"{json.dumps(rows[-1])}\n")
                    sys.stderr.flush()
    show(rows, as_json=options.json, title="Layer groups, vendor and ours")
    return 1 if any(row["ok"] != "yes" for row in rows) else 0


def _cells(options: argparse.Namespace) -> Iterator[tuple[int, CompileOptions]]:
    """(images at once, how to compile) of every combination that a chip has."""
    for chip in options.chips.split(","):
        for mode in options.modes.split(","):
            for images in options.batches.split(","):
                for cores in options.cores.split(","):
                    possible = int(cores) <= chip_named(chip).cores and not (mode == "F16" and chip.startswith("cv"))
                    if possible:
                        yield int(images), CompileOptions(chip, mode, options.quant_input, cores=int(cores))


def measure(
    toolchain: Toolchain,
    network: TpuGraph,
    images: int,
    folder: Path,
    how: CompileOptions,
    budget: Budget | None,
    run: bool = False,
) -> dict[str, str | int | float | None]:
    """One row of the table. budget: of the long search; None: the five compilations of `layer_group: ours`.

    run: candidates must give the vendor's outputs on the chip model, to the bit.
    """
    chip = chip_named(how.chip)
    graph = batched(network, images) if images > 1 else network
    row: dict[str, str | int | float | None] = {}
    try:
        program = lowered_program(toolchain, graph, how, folder)
        check = _same_outputs(toolchain, graph, chip, folder) if run else None
        if budget is None:
            tuning = few_trials(toolchain, program, CostModel(chip), folder / "trials", check).tuning
        else:
            tuning = tune(toolchain, program, CostModel(chip), budget, check)
    except NnkitError as error:
        return {**row, "ok": "no", "choice": error.reason[:60]}
    row |= _compared(tuning)
    if run:
        row["chip_model"] = "same outputs" if tuning.gain > 0 else "nothing to compare"
    row["quant_input_cycles"] = _with_quantised_input(toolchain, graph, folder, how)
    audit = tuning.best.audit
    conflicts = audit.conflicts if audit is not None else ("the compiler took none of the groups",)
    row["audit"] = conflicts[0] if conflicts else f"{audit.actions if audit is not None else 0} actions"
    row["ok"] = "yes" if tuning.best.cost <= 1.01 * tuning.vendor.cost and not conflicts else "no"
    return row


def _same_outputs(toolchain: Toolchain, graph: TpuGraph, chip: Chip, folder: Path) -> Check:
    """A check of candidates: one random input on the chip model must give the outputs of the vendor's groups."""
    from nnkit_tpu.chip_model import run_on_chip_model

    generator = np.random.default_rng(0)
    inputs = {n: generator.normal(0, 2, graph.tensors[n].shape).astype(np.float32) for n in graph.inputs}
    expected: dict[str, np.ndarray] = {}

    def outputs(outcome: Outcome) -> dict[str, np.ndarray]:
        file = folder / model_file(chip.name)
        file.write_bytes(outcome.model)
        return run_on_chip_model(toolchain, file, chip.name, inputs)

    def check(vendor: Outcome, candidate: Outcome) -> str:
        if not expected:
            expected.update(outputs(vendor))
        found = outputs(candidate)
        wrong = sum(_different(found[name], value) for name, value in expected.items())
        return f"{wrong} outputs differ on the chip model" if wrong else ""

    return check


def _different(found: np.ndarray, expected: np.ndarray) -> int:
    """Values whose bits differ."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return expected.size
    bits = np.dtype(f"u{expected.itemsize}")
    return int(np.count_nonzero(np.ascontiguousarray(found).view(bits) != np.ascontiguousarray(expected).view(bits)))


def _compared(tuning: Tuning) -> dict[str, str | int | float | None]:
    result: dict[str, str | int | float | None] = {}
    for who, outcome in (("vendor", tuning.vendor), ("ours", tuning.best)):
        result[f"{who}_cycles"] = outcome.profile.end_cycles if outcome.profile else None
        result[f"{who}_loads"] = outcome.traffic.loads if outcome.traffic else None
        result[f"{who}_stores"] = outcome.traffic.stores if outcome.traffic else None
        result[f"{who}_bytes"] = _bytes(outcome)
    result["gain_percent"] = round(100 * tuning.gain, 2)
    result["choice"] = tuning.choice if tuning.gain > 0 else VENDORS_CUTS
    result["trials"] = len(tuning.trials)
    return result


def _bytes(outcome: Outcome) -> int | None:
    if outcome.profile is not None:
        return outcome.profile.load_bytes + outcome.profile.store_bytes
    return outcome.traffic.total_bytes if outcome.traffic is not None else None


def _with_quantised_input(toolchain: Toolchain, graph: TpuGraph, folder: Path, how: CompileOptions) -> int | None:
    """Cycles of the vendor's own groups when the network takes INT8 values: what the choice of I/O alone is worth."""
    if how.mode != "INT8" or how.quant_input or how.chip.startswith("cv"):
        return None
    program = lowered_program(toolchain, graph, replace(how, quant_input=True), folder / "quant_input")
    outcome = compile_groups(toolchain, program)
    return outcome.profile.end_cycles if outcome.profile is not None else None


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tpu_layer_group", description=__doc__)
    parser.add_argument("--nets", default=",".join(NETWORKS), help="networks, separated by commas")
    parser.add_argument("--chips", default=",".join(CHIP_NAMES), help="chips, separated by commas")
    parser.add_argument("--modes", default="INT8", help="precisions, separated by commas: INT8, F16, BF16")
    parser.add_argument("--batches", default="1", help="images at once, separated by commas")
    parser.add_argument("--cores", default="1", help="processors, separated by commas")
    parser.add_argument("--layer-group", default="ours,measured", help="as in a recipe, separated by commas")
    parser.add_argument("--quant-input", action="store_true", help="the networks take INT8 values")
    parser.add_argument("--groups", type=int, default=Budget.groups, help="candidate groups measured alone")
    parser.add_argument("--steps", type=int, default=Budget.steps, help="steps of improvement")
    parser.add_argument("--orders", type=int, default=Budget.orders, help="other orders of the layers")
    parser.add_argument("--chip-model", action="store_true", help="compare outputs on the chip model")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())

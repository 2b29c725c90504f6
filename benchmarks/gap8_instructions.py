"""Instructions per multiply-accumulate on rv32imc: nnkit's kernels beside plain C, on the same layers and inputs.

    python -m benchmarks.gap8_instructions [--networks A,B] [--arithmetics A,B] [--layers] [--json]

Everything is compiled by the same compiler and run by the same emulator, which counts instructions exactly. Each
program's output is compared with the simulator first. nnkit's counts hold the whole call: gathering, streaming of
weights, pools; with one core.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.building import Built, Workshop
from benchmarks.networks import Network, available
from benchmarks.plain_network import STYLES
from benchmarks.plain_run import run_plain
from benchmarks.table import Row, ratio, show
from nnkit.program import macs
from nnkit.simulate import simulate
from nnkit_gap8.compile_flags import OPTIMISATION
from nnkit_gap8.runners import Rv32Runner

ARITHMETICS = {
    "int16 wide": "precision: int16, accumulate: wide",
    "int16 running": "precision: int16, accumulate: running",
    "int8 wide": "precision: int8, accumulate: wide",
    "int16 wide 64": "precision: int16, accumulate: wide, accumulator_bits: 64",
}
PUBLISHED = "published"  # `running` in the formats that came with the network
LEVELS = ("O2", "O3")


@dataclass(frozen=True)
class Measured:
    """One network under one arithmetic. counts: implementation -> layer -> instructions; totals: of whole runs."""

    network: str
    arithmetic: str
    built: Built
    counts: dict[str, dict[str, int]]
    totals: dict[str, int]


def measure(workshop: Workshop, network: Network, arithmetic: str, levels: tuple[str, ...]) -> Measured:
    """Run nnkit's kernels and the plain ones. Raises SystemExit where one of them computes something else."""
    if arithmetic == PUBLISHED:
        options = f"accumulate: running, formats: {network.published_formats}"
    else:
        options = ARITHMETICS[arithmetic]
    built = workshop.program(network, options)
    program = built.program
    expected = simulate(program, built.inputs)
    artifact = workshop.artifact(built)
    counts: dict[str, dict[str, int]] = {}
    totals: dict[str, int] = {}
    for level in levels:
        result = Rv32Runner(optimisation=(level, *OPTIMISATION[1:])).run(
            artifact, program, [built.inputs], trace=False
        )[0]
        for name in program.outputs:
            if not np.array_equal(result.outputs[name], expected[name]):
                raise SystemExit(f"nnkit {level}: {name!r} of {network.name} differs from the simulator")
        if result.instructions is None:
            raise SystemExit("the emulator counted no instructions")
        counts[f"nnkit {level}"] = dict(result.instructions_by_layer)
        totals[f"nnkit {level}"] = result.instructions
    for style in STYLES:
        for level in levels:
            with tempfile.TemporaryDirectory(prefix="nnkit-plain-") as name:
                by_layer = run_plain(
                    program, built.inputs, expected, Path(name) / "c", style=style, machine="rv32", optimisation=level
                )
            counts[f"{style} {level}"] = by_layer
            totals[f"{style} {level}"] = sum(by_layer.values())
    return Measured(network.name, arithmetic, built, counts, totals)


def total_row(measured: Measured) -> Row:
    """Instructions per MAC of each implementation, and how many times nnkit's the best of each peer takes."""
    program = measured.built.program
    count = sum(macs(op, program) for op in program.ops)
    row: dict[str, str | int | float | None] = {
        "network": measured.network,
        "arithmetic": measured.arithmetic,
        "MACs": count,
        "instructions": measured.totals["nnkit -O2"],
    }
    row |= {name: round(total / count, 3) for name, total in measured.totals.items()}
    return row | {f"{style}/nnkit": _best(measured.totals, style) for style in STYLES}


def layer_rows(measured: Measured) -> list[Row]:
    """The same for every layer that executes something."""
    program = measured.built.program
    rows: list[Row] = []
    for op in program.ops:
        by_name = {name: counts.get(op.name, 0) for name, counts in measured.counts.items()}
        count = macs(op, program)
        if not count and max(by_name.values()) < 100:
            continue  # in place: nothing is executed
        row: dict[str, str | int | float | None] = {
            "network": measured.network,
            "arithmetic": measured.arithmetic,
            "layer": op.name,
            "op": op.kind + (" + pool" if getattr(op, "pool", None) and op.kind == "conv2d" else ""),
            "output": "x".join(map(str, program.tensors[op.output].shape)),
            "MACs": count,
            "instructions": by_name["nnkit -O2"],
        }
        per = count or program.tensors[op.output].elements  # without weights: per output value
        row |= {name: round(instructions / per, 2) for name, instructions in by_name.items()}
        rows.append(row | {f"{style}/nnkit": _best(by_name, style) for style in STYLES})
    return rows


def _best(counts: dict[str, int], style: str) -> float | None:
    """The peer at its best optimisation level over nnkit at -O2, which is how it is built."""
    return ratio(min(count for name, count in counts.items() if name.startswith(style)), counts["nnkit -O2"])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gap8_instructions")
    parser.add_argument("--networks", help="names, separated by commas (also: tiny)")
    parser.add_argument("--arithmetics", help=f"of: {', '.join([*ARITHMETICS, PUBLISHED])}; separated by commas")
    parser.add_argument("--levels", default=",".join(LEVELS), help="optimisation levels, O2 among them")
    parser.add_argument("--layers", action="store_true", help="one row per layer as well")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    missing = Rv32Runner().missing()
    if missing:
        raise SystemExit(missing)
    wanted = arguments.arithmetics.split(",") if arguments.arithmetics else [*ARITHMETICS, PUBLISHED]
    if unknown := [name for name in wanted if name not in ARITHMETICS and name != PUBLISHED]:
        parser.error(f"no arithmetic {', '.join(unknown)}")
    levels = tuple(f"-{level}" for level in arguments.levels.split(","))
    if "-O2" not in levels:
        parser.error("--levels must hold O2, which nnkit's kernels are built with")
    totals: list[Row] = []
    layers: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="nnkit-bench-") as name:
        workshop = Workshop(Path(name))
        for network in available(Path(name), arguments.networks.split(",") if arguments.networks else None):
            for arithmetic in wanted:
                if arithmetic == PUBLISHED and network.published_formats is None:
                    continue
                measured = measure(workshop, network, arithmetic, levels)
                totals.append(total_row(measured))
                layers += layer_rows(measured) if arguments.layers else []
    if arguments.json:
        show([*totals, *layers], as_json=True)
        return
    if layers:
        show(layers, as_json=False, title="Instructions per MAC (without MACs: per output value), by layer")
    show(totals, as_json=False, title="Instructions per MAC on rv32imc")


if __name__ == "__main__":
    main()

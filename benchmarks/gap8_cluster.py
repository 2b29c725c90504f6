"""Cycles of networks in tiles on GAP8's cluster: as the tiler models them, and on GVSoC where it is installed.

    python -m benchmarks.gap8_cluster [--networks A,B] [--precisions int16,int8] [--schemes power_of_two,affine]
                                      [--cores 8,1] [--json]

A row for each network, precision, scheme, number of cores, and `on`: `gvsoc` (the simulated cluster, weights streamed
from L3; every output compared with the simulator of the arithmetic) or `model`, whose `mismatches` are those of the
same C on this machine under the port that is strict about transfers. Without GVSoC only the model's rows are there.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np

from benchmarks.building import Built, Workshop
from benchmarks.networks import Network, available
from benchmarks.table import Row, show
from nnkit.memory.plan import MemoryPlan
from nnkit.program import Program, macs
from nnkit.simulate import simulate
from nnkit.target import Runner
from nnkit_gap8.affine.scheme import planned
from nnkit_gap8.checked_plan import checked_plan
from nnkit_gap8.cluster.build import Cluster
from nnkit_gap8.cluster.tile_plan import TilePlan
from nnkit_gap8.cluster.tile_report import network_cycles
from nnkit_gap8.gvsoc_runner import GvsocRunner
from nnkit_gap8.options import Gap8Options
from nnkit_gap8.runners import HostRunner


def rows_of(workshop: Workshop, network: Network, precision: str, scheme: str, cores: int) -> Iterator[Row]:
    """The model's row, and that of the simulated cluster."""
    built = workshop.program(
        network, f"precision: {precision}, scheme: {scheme}, cluster: {{cores: {cores}, l1: 48KiB}}"
    )
    options, program = cast("Gap8Options", built.build.options), built.program
    plan, tiles = _tiles(program, options)
    machine = options.core_machine() if options.scheme == "power_of_two" else None
    modelled = round(network_cycles(tiles, plan, program, machine))
    total = sum(macs(op, program) for op in program.ops)
    artifact = workshop.artifact(built)
    runners: list[tuple[str, Runner]] = [("model", HostRunner())]
    if GvsocRunner().missing() is None:
        runners.append(("gvsoc", GvsocRunner()))
    for on, runner in runners:
        cycles, mismatches = _run(runner, artifact, built)
        spent = modelled if cycles is None else cycles
        yield {
            "network": network.name,
            "precision": precision,
            "scheme": scheme,
            "cores": cores,
            "on": on,
            "cycles": spent,
            "macs": total,
            "mac_per_cycle": round(total / spent, 2),
            "modelled_cycles": modelled,
            "mismatches": mismatches,
        }


def _tiles(program: Program, options: Gap8Options) -> tuple[MemoryPlan, TilePlan]:
    if options.scheme == "power_of_two":
        plan = checked_plan(program, options)
        return plan, Cluster(program, options.core_machine()).tile_plan(plan)
    plans = planned(program, options)
    if plans.tiles is None:
        raise SystemExit("the affine plan has no tiles")
    return plans.plan, plans.tiles


def _run(runner: Runner, artifact: Path, built: Built) -> tuple[int | None, int]:
    """Cycles where the runner counts them, and how many output values differ from the simulator's."""
    result = runner.run(artifact, built.program, [built.inputs], trace=False)[0]
    expected = simulate(built.program, built.inputs)
    differing = sum(int(np.count_nonzero(result.outputs[o] != expected[o])) for o in built.program.outputs)
    return result.measured.get("cycles"), differing


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default="face", help="of benchmarks.networks, with commas")
    parser.add_argument("--precisions", default="int16,int8")
    parser.add_argument("--schemes", default="power_of_two")
    parser.add_argument("--cores", default="8")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    missing = GvsocRunner().missing()
    if missing is not None:
        print(f"gvsoc: not run: {missing}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        workshop = Workshop(Path(folder))
        rows = [
            row
            for network in available(Path(folder), arguments.networks.split(","))
            for precision in arguments.precisions.split(",")
            for scheme in arguments.schemes.split(",")
            for cores in map(int, arguments.cores.split(","))
            for row in rows_of(workshop, network, precision, scheme, cores)
        ]
    show(rows, as_json=arguments.json, title="Cycles on the cluster")


if __name__ == "__main__":
    main()

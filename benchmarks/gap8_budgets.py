"""What less L2 costs: a network within one budget after another, by weights in smaller pieces and stripes of rows.

    python -m benchmarks.gap8_budgets [--networks A,B] [--budgets 512KiB,256KiB,least] [--cluster] [--json]

A row for each network and budget, of one inference. `instructions` are those of rv32imc, one core, counted by QEMU;
with --cluster `cycles` are those of eight cores on GVSoC, where it is installed. `mismatches` counts output values
that differ from those that the simulator computes of the network whole; `published`, of `face_published`, how many of
its 512 published values come out. `code_bytes` are instructions and constants, which lie in L2 too on the chip; the
budget `least` has the least peak and code together.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from benchmarks.building import Workshop
from benchmarks.networks import Network, available, shared_folder
from benchmarks.table import Row, show
from nnkit.errors import DoesNotFitError
from nnkit.program import Program, macs
from nnkit.simulate import simulate
from nnkit.target import Runner
from nnkit_gap8.checked_plan import checked_plan
from nnkit_gap8.gvsoc_runner import GvsocRunner
from nnkit_gap8.options import Gap8Options
from nnkit_gap8.runners import Rv32Runner

_BUDGETS = "512KiB,256KiB,192KiB,160KiB,128KiB,96KiB,78592,least"


def rows_of(workshop: Workshop, network: Network, budgets: list[str], *, cluster: bool) -> Iterator[Row]:
    """The rows of one network; a budget that it does not fit has a row without figures."""
    options = "precision: int16"
    if network.published_formats is not None:
        options = f"accumulate: running, formats: {network.published_formats}"
    if cluster:
        options += ", cluster: {cores: 8, l1: 48KiB}"
    whole = workshop.program(network, f"{options}, stripes: never, memory: {{l2: 4MiB, larger_chip: true}}")
    inputs, published = _inputs(network, whole.program, whole.inputs)
    expected = simulate(whole.program, inputs)
    total = sum(macs(op, whole.program) for op in whole.program.ops)
    runner: Runner = GvsocRunner() if cluster else Rv32Runner()
    for budget in budgets:
        limit = "stripes: least" if budget == "least" else f"memory: {{l2: {budget}}}"
        row: dict[str, str | int | float | None] = {"network": network.name, "budget": budget}
        try:
            built = workshop.program(network, f"{options}, {limit}")
            plan = checked_plan(built.program, cast("Gap8Options", built.build.options))
        except DoesNotFitError:
            yield row | {"l2_bytes": None}
            continue
        result = runner.run(workshop.artifact(built), built.program, [inputs], trace=False)[0]
        spent = result.measured["cycles"] if cluster else result.instructions
        outputs = built.program.outputs
        executed = sum(macs(op, built.program) for op in built.program.ops)
        row |= {
            "l2_bytes": plan.regions["l2"].peak_bytes,
            "lower_bound": plan.regions["l2"].lower_bound_bytes,
            **({} if cluster else {"code_bytes": result.measured["code_bytes"]}),
            "cycles" if cluster else "instructions": spent,
            "macs": total,
            "again_percent": round(100 * (executed / total - 1), 2),
            "l3_bytes": sum(chunk.size_bytes for chunk in plan.chunks),
            "mismatches": sum(int(np.count_nonzero(result.outputs[o] != expected[o])) for o in outputs),
        }
        if published is not None:
            row["published"] = int((result.outputs[outputs[0]].ravel() == published).sum())
        yield row


def _inputs(
    network: Network, program: Program, inputs: Mapping[str, NDArray[np.int64]]
) -> tuple[Mapping[str, NDArray[np.int64]], NDArray[Any] | None]:
    """A network's inputs; of the published one its image, and the descriptor that was published for it."""
    shared = shared_folder()
    if network.published_formats is None or shared is None:
        return inputs, None
    with np.load(shared / "models" / "gap8_reid" / "reference.npz") as stored:
        image = stored["image"].astype(np.int64)
        published: NDArray[Any] = stored["descriptor_q10"]
    (name,) = program.inputs
    return {name: image.reshape(program.tensors[name].shape)}, published


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default="face_published", help="of benchmarks.networks, with commas")
    parser.add_argument("--budgets", default=_BUDGETS, help="of L2, with commas")
    parser.add_argument("--cluster", action="store_true", help="eight cores on GVSoC")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    missing = (GvsocRunner() if arguments.cluster else Rv32Runner()).missing()
    if missing:
        raise SystemExit(missing)
    with tempfile.TemporaryDirectory(prefix="nnkit-bench-") as folder:
        workshop = Workshop(Path(folder))
        rows = [
            row
            for network in available(Path(folder), arguments.networks.split(","))
            for row in rows_of(workshop, network, arguments.budgets.split(","), cluster=arguments.cluster)
        ]
    show(rows, as_json=arguments.json, title="What less L2 costs on GAP8")


if __name__ == "__main__":
    main()

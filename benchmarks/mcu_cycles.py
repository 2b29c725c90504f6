"""Fits what `nnkit_ansi_c.cycles` estimates with: instructions of each layer, counted under QEMU, against its shape.

    python -m benchmarks.mcu_cycles [--networks a,b,unet] [--keep FOLDER] [--write]

Costs are the least squares of relative errors, none below 0. Each network is then estimated by costs of the others
alone; the largest of these errors is told with every estimate. `--keep FOLDER` stores counts and takes those there.
`--write` writes `targets/nnkit_ansi_c/cycle_costs.py`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.mcu import NETWORKS, build
from benchmarks.networks import mobilenet_v2, unet
from benchmarks.table import show
from nnkit.builds import open_build
from nnkit.program import Program
from nnkit.verify.artifact import compare_artifact
from nnkit_ansi_c.cycles import FEATURES, Work, moves_nothing, work_of

PRECISIONS = {
    "int8": ("cortex-m4", "rv32imac"),
    "int16": ("cortex-m4", "rv32imac"),
    "a16w8": ("cortex-m4", "rv32imac"),
    "float32": ("cortex-m4",),
}
SEEDED = {"mobilenet_v2": mobilenet_v2, "unet": unet}
"""Networks beside those of `benchmarks.mcu`, for kinds of layers and sizes that they lack."""
COSTS_FILE = Path(__file__).resolve().parents[1] / "targets/nnkit_ansi_c/cycle_costs.py"
Sample = tuple[str, str, Work, int]
"""Network, core, what a layer does, its instructions."""


def counted(folder: Path, network: str, precision: str) -> list[Sample]:
    """A sample for each layer and core; layers that only call are left out."""
    kept = folder / f"{network}-{precision}.json"
    built = folder / f"{network}-{precision}"
    if not kept.exists():
        onnx = None
        if network in SEEDED:
            onnx = folder / f"{network}.onnx"
            SEEDED[network](onnx)
        library = build(built, network, precision, onnx)
        counts = {}
        for core in PRECISIONS[precision]:
            verdict = compare_artifact(
                library.runner(core), library.artifact, library.built.program, [library.inputs]
            )
            if verdict.mismatches:
                raise SystemExit(f"{network} in {precision} is wrong on {core}: {verdict.first_difference}")
            counts[core] = {"total": verdict.instructions, "layers": dict(verdict.instructions_by_layer)}
        kept.write_text(json.dumps(counts))
    program: Program = open_build(next((built / "out").rglob("report.json")).parent).program
    samples = []
    for core, found in json.loads(kept.read_text()).items():
        for op in program.ops:
            work = None if moves_nothing(op) else work_of(op, program)
            if work is not None and found["layers"].get(op.name):
                samples.append((network, core, work, found["layers"][op.name]))
    return samples


def fitted(works: Sequence[Work], instructions: Sequence[int]) -> NDArray[np.float64]:
    """Instructions for each feature, none below 0."""
    counts = np.array([work.counts for work in works], float)
    relative = counts / np.array(instructions, float)[:, None]
    used = [index for index in range(counts.shape[1]) if counts[:, index].any()]
    costs = np.zeros(counts.shape[1])
    while used:
        solved = np.linalg.lstsq(relative[:, used], np.ones(len(counts)), rcond=None)[0]
        if (solved >= 0).all():
            costs[used] = solved
            break
        used.pop(int(np.argmin(solved * relative[:, used].mean(axis=0))))
    return costs


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mcu_cycles")
    parser.add_argument("--networks", default=",".join([*NETWORKS, *SEEDED]))
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    names = arguments.networks.split(",")
    with tempfile.TemporaryDirectory(prefix="nnkit-mcu-cycles-") as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        samples = [each for p in PRECISIONS for name in names for each in counted(folder, name, p)]
    groups: dict[tuple[str, str, str], list[Sample]] = {}
    for sample in samples:
        groups.setdefault((sample[1], sample[2].numbers, sample[2].kind), []).append(sample)
    costs, rows = {}, []
    totals: dict[tuple[str, str], dict[str, list[float]]] = {}
    for key, group in sorted(groups.items()):
        costs[key] = fitted([each[2] for each in group], [each[3] for each in group])
        errors = [abs(float(np.dot(each[2].counts, costs[key])) / each[3] - 1) for each in group]
        told = {name: round(float(cost), 3) for name, cost in zip(FEATURES[key[2]], costs[key], strict=True)}
        rows.append(
            {"core": key[0], "numbers": key[1], "kind": key[2], "layers": len(group)}
            | {"median error": round(float(np.median(errors)), 3), "largest": round(max(errors), 3)}
            | {"instructions each": ", ".join(f"{name} {cost:g}" for name, cost in told.items())}
        )
        for name in names:
            others = [each for each in group if each[0] != name] or group
            without = fitted([each[2] for each in others], [each[3] for each in others])
            own = [each for each in group if each[0] == name]
            total = totals.setdefault(key[:2], {}).setdefault(name, [0.0, 0.0])
            total[0] += sum(float(np.dot(each[2].counts, without)) for each in own)
            total[1] += sum(each[3] for each in own)
    left_out = {key: {name: t[0] / t[1] - 1 for name, t in by.items() if t[1]} for key, by in totals.items()}
    show(rows, as_json=False, title="Instructions by kind of layer")
    show(
        [
            {"core": core, "numbers": numbers} | {name: f"{100 * e:+.1f} %" for name, e in by.items()}
            for (core, numbers), by in left_out.items()
        ],
        as_json=False,
        title="Whole networks, estimated by costs of the others",
    )
    if arguments.write:
        COSTS_FILE.write_text(_source(costs, {key: max(map(abs, by.values())) for key, by in left_out.items()}))


def _source(costs: dict[tuple[str, str, str], NDArray[np.float64]], errors: dict[tuple[str, str], float]) -> str:
    lines = [
        '"""Instructions for each feature of `cycles.FEATURES`; written by `python -m benchmarks.mcu_cycles`."""',
        "",
        "from __future__ import annotations",
        "",
        "COSTS: dict[tuple[str, str, str], dict[str, float]] = {",
    ]
    for (core, numbers, kind), each in costs.items():
        pairs = [(name, round(float(cost), 4)) for name, cost in zip(FEATURES[kind], each, strict=True)]
        told = ", ".join(f'"{name}": {cost}' for name, cost in pairs if cost)
        lines.append(f'    ("{core}", "{numbers}", "{kind}"): {{{told}}},')
    lines += ["}", "", "ERRORS: dict[tuple[str, str], float] = {"]
    lines += [f'    ("{core}", "{numbers}"): {error:.4f},' for (core, numbers), error in errors.items()]
    lines += ["}", '"""By core and numbers, the largest error of a whole network that had no part in the fit."""', ""]
    return "\n".join(lines)


if __name__ == "__main__":
    main()

"""What the corrections of weights gain the NNIE in 8 bits: mobile and residual networks as PyTorch exports them.

    python -m benchmarks.nnie_corrections [--networks A,B] [--keep FOLDER] [--json]

Networks of `benchmarks.zoo` with seeded random weights, 32 random inputs to calibrate on and 16 others to measure on.
SQNR in dB of the simulated NNIE's outputs to the float network's: with `corrections: []`, and of a recipe that says
nothing of corrections, which gets those that help on calibration inputs kept aside. Needs the extra `zoo`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from benchmarks.table import Row, show
from benchmarks.zoo.export import export, write_inputs
from benchmarks.zoo.exported import Exported
from nnkit import stages
from nnkit.api.preparing import Switches, builds, load
from nnkit.errors import ModelError
from nnkit.inputs import verification_samples
from nnkit.report.progress import Progress
from nnkit.stages import Settled
from nnkit.verify.float_vs_program import compare_with_float

NETWORKS = (
    "ds_cnn,mobilenet_v1,mobilenet_v2,mobilenet_v3_small,mobilenet_v3_large,mnasnet0_5,efficientnet_b0,ghost,"
    "resnet8,resnet18,regnet_x_400mf,regnet_y_400mf,squeezenet1_1,face_features,ssd_small,yolo_raw,key_points"
)
CALIBRATED, VERIFIED = 32, 16


def sqnr(name: str, exported: Exported, calibration: str) -> tuple[float, list[str]]:
    """SQNR in dB on the verification inputs, and the notes on corrections. calibration: of the recipe, as YAML."""
    folder = exported.path.parent
    given = "".join(
        f"    {key}: {{calibration: {{images: {json.dumps(str(folder / f'{key}_*.npy'))}}}}}\n"
        for key in exported.inputs
    )
    verified = ", ".join(f"{key}: {json.dumps(str(folder / f'verify_{key}_*.npy'))}" for key in exported.inputs)
    recipe = folder / "corrections.yaml"
    recipe.write_text(
        f"nnkit: 1\nname: {name}\nmodel:\n  path: {json.dumps(str(exported.path))}\n  inputs:\n{given}{calibration}"
        f"targets:\n  nnie: {{chip: hi3516cv500, outside_limits: custom}}\nverify: {{images: {{{verified}}}}}\n",
        encoding="utf-8",
    )
    build = builds(load(recipe), [], Progress(quiet=True), Switches(cache=False, emulate=False))[0]
    restructured = stages.restructure(build, stages.import_model(build))
    lowered = stages.lower(build, restructured)
    settled, statistics = stages.correct(build, Settled(lowered), stages.calibrate(build, restructured))
    program = stages.quantize(build, settled, statistics)
    samples = verification_samples(build.recipe, restructured.model)
    compared = compare_with_float(restructured.reference, restructured.model, program, samples)
    return compared.outputs.sqnr_db, [note for note in program.notes if "held-out" in note]


def measured(name: str, folder: Path) -> Row:
    """One network without corrections and with those that it gets by default."""
    folder.mkdir(parents=True, exist_ok=True)
    exported = export(name, "torchscript", folder)
    for file in folder.glob("*.npy"):
        file.unlink()
    write_inputs(name, folder, CALIBRATED, VERIFIED)
    try:
        before, _ = sqnr(name, exported, "calibration: {corrections: []}\n")
        after, notes = sqnr(name, exported, "")
    except ModelError as error:
        return {"network": name, "before": None, "after": None, "judged": str(error).split("\n")[0]}
    return {"network": name, "before": round(before, 1), "after": round(after, 1), "judged": "; ".join(notes)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nnie_corrections")
    parser.add_argument("--networks", default=NETWORKS, help="names of benchmarks.zoo, separated by commas")
    parser.add_argument("--keep", type=Path, help="folder of the exported networks")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="nnkit-bench-") as temporary:
        for name in arguments.networks.split(","):
            rows.append(measured(name, (arguments.keep or Path(temporary)) / name))
            sys.stderr.write(f"{json.dumps(rows[-1])}\n")
    show(rows, as_json=arguments.json, title="SQNR in dB, 8 bits")


if __name__ == "__main__":
    main()

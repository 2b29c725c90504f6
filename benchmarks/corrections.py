"""What the corrections of weights gain in 8 bits: mobile and residual networks as PyTorch exports them.

    python -m benchmarks.corrections [--networks A,B] [--targets nnie,gap8,gap8@affine] [--keep FOLDER] [--json]
    NNKIT_SHARED=<folder> python -m benchmarks.corrections --detector [--json]

Networks of `benchmarks.zoo` with seeded random weights, 32 random inputs to calibrate on and 16 others to measure on.
SQNR in dB of the simulated outputs to the float network's: with `corrections: []`, and of a recipe that says nothing
of corrections, which gets those that help on held-out calibration inputs. Needs the extra `zoo`.

`--detector`: RFB-320 on the NNIE, calibrated on 24 photos of ImageNet, with no correction, with either of two, and
with both; cosine, SQNR and float detections that are there again, on six photos of faces.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from benchmarks.networks import shared_folder
from benchmarks.nnie_networks import FACES, PHOTOS, write_recipe
from benchmarks.table import Row, show
from nnkit import stages
from nnkit.api.preparing import Switches, builds, load
from nnkit.errors import ModelError
from nnkit.inputs import verification_samples
from nnkit.program import Program
from nnkit.report.progress import Progress
from nnkit.stages import Build, Restructured, Settled
from nnkit.verify.float_vs_program import compare_with_float
from nnkit.verify.tasks import output_pairs, task_scorer

if TYPE_CHECKING:
    from benchmarks.zoo.exported import Exported

NETWORKS = (
    "ds_cnn,mobilenet_v1,mobilenet_v2,mobilenet_v3_small,mobilenet_v3_large,mnasnet0_5,efficientnet_b0,ghost,"
    "resnet8,resnet18,regnet_x_400mf,regnet_y_400mf,squeezenet1_1,face_features,ssd_small,yolo_raw,key_points"
)
CALIBRATED, VERIFIED = 32, 16
TARGETS: Mapping[str, str] = MappingProxyType(
    {
        "nnie": "{chip: hi3516cv500, outside_limits: custom}",
        "gap8": "{precision: int8, accumulate: wide, memory: {l2: 64MiB, larger_chip: true, l3: 512MiB}}",
        "gap8@affine": "{scheme: affine, precision: int8, memory: {l2: 64MiB, larger_chip: true, l3: 512MiB}}",
    }
)
"""Options by target. Memory is ample: the programs are simulated and not placed."""
OF_DETECTOR = ((), ("equalize",), ("bias_correction",), ("equalize", "bias_correction"))
_PHOTOS = 24


def sqnr(name: str, target: str, exported: Exported, calibration: str) -> tuple[float, list[str]]:
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
        f"targets:\n  {target}: {TARGETS[target]}\nverify: {{images: {{{verified}}}}}\n",
        encoding="utf-8",
    )
    build, restructured, program = quantized(recipe)
    samples = verification_samples(build.recipe, restructured.model)
    compared = compare_with_float(restructured.reference, restructured.model, program, samples)
    return compared.outputs.sqnr_db, [note for note in program.notes if "held-out" in note]


def quantized(recipe: Path) -> tuple[Build, Restructured, Program]:
    """A recipe's build up to the simulated network, with the corrections that it gets."""
    build = builds(load(recipe), [], Progress(quiet=True), Switches(cache=False, emulate=False))[0]
    restructured = stages.restructure(build, stages.import_model(build))
    lowered = stages.lower(build, restructured)
    settled, statistics = stages.correct(build, Settled(lowered), stages.calibrate(build, restructured))
    return build, restructured, stages.quantize(build, settled, statistics)


def detector_row(corrections: tuple[str, ...], shared: Path, folder: Path) -> Row:
    """RFB-320 in 8 bits with these corrections."""
    more = f", calibration: {{corrections: [{', '.join(corrections)}]}}"
    recipe = write_recipe(folder / "-".join(corrections), "rfb_320", shared, calibrated=_PHOTOS, more=more)
    own = f"calibration: {{images: {json.dumps(str(shared / FACES))}"
    recipe.write_text(recipe.read_text().replace(own, f"calibration: {{images: {json.dumps(str(shared / PHOTOS))}"))
    build, restructured, program = quantized(recipe)
    samples = verification_samples(build.recipe, restructured.model)
    shapes = {name: program.tensors[name].shape for name in (*program.inputs, *program.outputs)}
    planes = [shapes[name] for name in program.inputs]
    scorer = task_scorer(build.recipe, {name: shapes[name] for name in program.outputs}, planes, samples.images)
    if scorer is None:
        raise SystemExit("the recipe of rfb_320 has no task")
    compared = compare_with_float(restructured.reference, restructured.model, program, samples, read=scorer.read)
    task = scorer.score(*output_pairs(samples.images, compared.task_values))
    return {
        "corrections": ", ".join(corrections) or "none",
        "cosine": round(compared.outputs.cosine, 3),
        "SQNR": round(compared.outputs.sqnr_db, 1),
        **{metric.name: round(metric.value, 3) for metric in task.metrics},
    }


def measured(name: str, targets: Sequence[str], folder: Path) -> Iterator[Row]:
    """One network on each target, without corrections and with those that it gets by default."""
    from benchmarks.zoo.export import export, write_inputs  # needs torch

    folder.mkdir(parents=True, exist_ok=True)
    exported = export(name, "torchscript", folder)
    for file in folder.glob("*.npy"):
        file.unlink()
    write_inputs(name, folder, CALIBRATED, VERIFIED)
    for target in targets:
        row: Row = {"network": name, "target": target, "before": None, "after": None}
        try:
            before, _ = sqnr(name, target, exported, "calibration: {corrections: []}\n")
            after, notes = sqnr(name, target, exported, "")
        except ModelError as error:
            yield {**row, "judged": str(error).split("\n")[0]}
            continue
        yield {**row, "before": round(before, 1), "after": round(after, 1), "judged": "; ".join(notes)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.corrections")
    parser.add_argument("--networks", default=NETWORKS, help="names of benchmarks.zoo, separated by commas")
    parser.add_argument("--targets", default=",".join(TARGETS), help=f"of {', '.join(TARGETS)}; default: all")
    parser.add_argument("--keep", type=Path, help="folder of the exported networks")
    parser.add_argument("--detector", action="store_true", help="RFB-320 instead, of the shared folder")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    targets = arguments.targets.split(",")
    if unknown := [target for target in targets if target not in TARGETS]:
        parser.error(f"no target {', '.join(unknown)}; there are: {', '.join(TARGETS)}")
    if arguments.detector:
        shared = shared_folder()
        if shared is None:
            raise SystemExit("set NNKIT_SHARED to the folder that holds models and images")
        with tempfile.TemporaryDirectory(prefix="nnkit-bench-") as temporary:
            detections = [detector_row(each, shared, Path(temporary)) for each in OF_DETECTOR]
        show(detections, as_json=arguments.json, title="RFB-320 on six photos, 8 bits")
        return
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="nnkit-bench-") as temporary:
        for name in arguments.networks.split(","):
            for row in measured(name, targets, (arguments.keep or Path(temporary)) / name):
                rows.append(row)
                sys.stderr.write(f"{json.dumps(row)}\n")
    show(rows, as_json=arguments.json, title="SQNR in dB, 8 bits")


if __name__ == "__main__":
    main()

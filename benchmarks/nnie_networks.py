"""Real networks on the NNIE: what is refused, what runs where, and how near 8 and 16 bits come to float.

    NNKIT_SHARED=<folder> python -m benchmarks.nnie_networks [--networks A,B] [--json]

Every network is built by `nnkit run` in all compile modes: 8 bits, 16 bits, and 8 bits but for the first convolution
and what normalises its image, which have 16. The pair that each build emits and the C of its CPU
segments are run and compared with the simulation by the build itself. Images are few, so that a run takes minutes.
`enet_own_size` takes 6 GB of memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.networks import shared_folder
from benchmarks.table import Row, show

FACES = "models/ulfg/images/*.jpg"
PHOTOS = "images/photos/n*.JPEG"
_SYNSETS = "models/squeezenet_v10_dc/synset_words.txt"


@dataclass(frozen=True)
class NnieNetwork:
    """A network in the shared folder and how its publishers feed it. size: height and width of its input.

    outside: with `outside_limits: custom`, as some layers are beyond the NNIE's limits. task: of `verify`, as YAML.
    calibrated, verified: images.
    """

    model: str
    weights: str | None
    input_name: str
    size: tuple[int, int]
    color: str
    mean: str
    scale: float
    images: str
    outside: bool = False
    task: str | None = None
    calibrated: int = 6
    verified: int = 4


_MTCNN = {"input_name": "data", "color": "rgb", "mean": "127.5", "scale": 0.0078125, "images": FACES}
_RFB_TASK = (
    "{kind: detection, decode: {clip_anchors: true, heads: [{boxes: boxes, scores: scores, anchors: ["
    "{stride: 8, sides: [10, 16, 24]}, {stride: 16, sides: [32, 48]}, {stride: [30, 32], sides: [64, 96]}, "
    "{stride: [60, 64], sides: [128, 192, 256]}]}]}}"
)
_RFB = {
    "input_name": "input",
    "size": (240, 320),
    "color": "rgb",
    "mean": "127",
    "scale": 0.0078125,
    "images": FACES,
    "task": _RFB_TASK,
    "verified": 6,
}
_RETINAFACE_HEADS = ", ".join(
    f"{{boxes: face_rpn_bbox_pred_stride{stride}, scores: face_rpn_cls_prob_reshape_stride{stride}, "
    f"anchors: [{{stride: {stride}, sides: {sides}}}]}}"
    for stride, sides in ((32, [512, 256]), (16, [128, 64]), (8, [32, 16]))
)
_RETINAFACE_TASK = (
    "{kind: detection, decode: {variances: [1, 1], centre: 7.5, scores: class_first, nms: 0.4, "
    f"heads: [{_RETINAFACE_HEADS}]}}}}"
)

NETWORKS: Mapping[str, NnieNetwork] = MappingProxyType(
    {
        "res10_ssd": NnieNetwork(
            "models/res10_ssd/res10_300x300_deploy.prototxt",
            "models/res10_ssd/res10_300x300_ssd_from_uint8.caffemodel",
            "data",
            (300, 300),
            "bgr",
            "[104, 177, 123]",
            1.0,
            FACES,
            outside=True,
            task="{kind: detection}",
            verified=6,
        ),
        "rfb_320": NnieNetwork(
            "models/ulfg/RFB-320.prototxt", "models/ulfg/RFB-320.caffemodel", outside=True, **_RFB
        ),
        "rfb_320_onnx": NnieNetwork(
            "models/ulfg/version-RFB-320_without_postprocessing.onnx", None, outside=True, **_RFB
        ),
        "retinaface": NnieNetwork(
            "models/retinaface_mnet/retinaface_mnet.prototxt",
            "models/retinaface_mnet/retinaface_mnet.caffemodel",
            "data",
            (640, 640),
            "rgb",
            "0",
            1.0,
            FACES,
            task=_RETINAFACE_TASK,
            verified=6,
        ),
        # MTCNN's networks take pictures with height and width exchanged; distances to float do not depend on that.
        "mtcnn_det1": NnieNetwork(
            "models/mtcnn/det1.prototxt", "models/mtcnn/det1.caffemodel", size=(120, 160), **_MTCNN
        ),
        "mtcnn_det2": NnieNetwork(
            "models/mtcnn/det2.prototxt", "models/mtcnn/det2.caffemodel", size=(24, 24), **_MTCNN
        ),
        "squeezenet_v10": NnieNetwork(
            "models/squeezenet_v10_dc/SqueezeNet_deploy.prototxt",
            "models/squeezenet_v10_dc/SqueezeNet_v1.0_dc.caffemodel",
            "data",
            (227, 227),
            "bgr",
            "[104, 117, 123]",
            1.0,
            PHOTOS,
            task="{kind: classification, labels: labels.csv}",
            verified=40,
        ),
        "enet": NnieNetwork(
            "models/enet_cityscapes/enet.prototxt",
            "models/enet_cityscapes/enet.caffemodel",
            "data",
            (128, 256),
            "bgr",
            "0",
            1.0,
            PHOTOS,
        ),
        "enet_own_size": NnieNetwork(
            "models/enet_cityscapes/enet.prototxt",
            "models/enet_cityscapes/enet.caffemodel",
            "data",
            (512, 1024),
            "bgr",
            "0",
            1.0,
            PHOTOS,
            calibrated=2,
            verified=1,
        ),
    }
)


NO_TABLE = ", precision_table: false"


def write_recipe(
    folder: Path,
    name: str,
    shared: Path,
    *,
    mode: int = 0,
    refuse: bool = False,
    calibrated: int | None = None,
    verified: int | None = None,
    more: str = "",
) -> Path:
    """The recipe of a network. refuse: without `outside_limits: custom`. more: further options, as YAML.

    calibrated, verified: images; None: as many as the network's figures are made on.
    """
    network = NETWORKS[name]
    options = f"chip: hi3516cv500, compile_mode: {mode}"
    if network.outside and not refuse:
        options += ", outside_limits: custom"
    shape = [1, 3, *network.size]
    weights = f"  weights: {json.dumps(str(shared / network.weights))}\n" if network.weights else ""
    images = json.dumps(str(shared / network.images))
    task = f", task: {network.task}" if network.task else ""
    folder.mkdir(parents=True, exist_ok=True)
    if network.images == PHOTOS:
        (folder / "labels.csv").write_text(photo_labels(shared))
    recipe = folder / "recipe.yaml"
    recipe.write_text(
        f"nnkit: 1\nname: {name}\nmodel:\n  format: {'caffe' if network.weights else 'onnx'}\n"
        f"  path: {json.dumps(str(shared / network.model))}\n{weights}"
        f"  inputs:\n    {network.input_name}:\n      shape: {shape}\n"
        f"      preprocess: {{color: {network.color}, resize: {{size: {list(network.size)}}}, mean: {network.mean}, "
        f"scale: {network.scale}}}\n"
        f"      calibration: {{images: {images}, count: {calibrated or network.calibrated}}}\n"
        f"targets:\n  nnie: {{{options}{more}}}\n"
        f"verify: {{images: {images}, count: {verified or network.verified}{task}}}\n"
    )
    return recipe


def photo_labels(shared: Path) -> str:
    """`image,class` for the photos, whose file names begin with the WordNet id of what they show."""
    ids = [line.split()[0] for line in (shared / _SYNSETS).read_text().splitlines()]
    files = sorted(path.name for path in shared.glob(PHOTOS))
    return "image,class\n" + "".join(f"{file},{ids.index(file.split('_')[0])}\n" for file in files)


def run(recipe: Path, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """`nnkit run` on a recipe, in a process of its own; the cache lies beside `out`."""
    environment = {**os.environ, "NNKIT_CACHE": str(out.parent / "cache"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "nnkit", "run", str(recipe), "--out", str(out), *more]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def report_of(out: Path, name: str) -> dict[str, Any]:
    """The report of a build. Raises OSError where there is none."""
    report: dict[str, Any] = json.loads((out / name / "nnie" / "report.json").read_text())
    return report


def first_layers(recipe: Path) -> list[str]:
    """The first convolution of a recipe's network, and what normalises its image."""
    from nnkit import stages
    from nnkit.api.preparing import load
    from nnkit.cache import StageCache
    from nnkit.report.progress import Progress
    from nnkit.target import load_target
    from nnkit_nnie.precision import first_convolutions

    loaded, target = load(recipe), load_target("nnie")
    build = stages.Build(loaded, "nnie", target, loaded.targets["nnie"], StageCache.disabled(), Progress(quiet=True))
    restructured = stages.restructure(build, stages.import_model(build))
    lowered = target.lower(restructured.model, restructured.log, build.options)
    return [layer.name for layer in first_convolutions(lowered.network)]


def measured(name: str, shared: Path, folder: Path) -> Row:
    """One network: refusals, segments, accuracy in 8 and 16 bits. Raises SystemExit where a build fails."""
    row: dict[str, str | int | float | None] = {"network": name, "refusals": 0}
    if NETWORKS[name].outside:
        recipe = write_recipe(folder / name / "refused", name, shared, refuse=True)
        refused = run(recipe, folder / "refused")
        if refused.returncode != 3:
            raise SystemExit(f"{name} was to be refused, and ended {refused.returncode}\n{refused.stderr}")
        row["refusals"] = int(refused.stderr.split("error: ")[1].split()[0])
    first: list[str] = []
    for mode, bits in ((0, "8"), (1, "16"), (2, "first in 16")):
        more = f"{NO_TABLE}, tags: {{hp: {json.dumps(first)}}}" if mode == 2 else NO_TABLE
        place = f"out{mode}"
        done = run(write_recipe(folder / name / place, name, shared, mode=mode, more=more), folder / place)
        if done.returncode:
            raise SystemExit(f"{name} with {bits} bits ended {done.returncode}\n{done.stderr}")
        report = report_of(folder / place, name)
        if bits == "8":
            first = first_layers(folder / name / place / "recipe.yaml")
            parts = report["details"]["segments"]
            row["segments"] = ", ".join(f"{part['runs_on']} {part['layers']}" for part in parts)
            row["MACs"] = report["macs"]
            row["images"] = report["verify"]["float_vs_program"]["inputs"]
        accuracy = report["verify"]["float_vs_program"]
        row[f"cosine {bits}"] = f"{accuracy['cosine']:.6f}"
        row[f"dB {bits}"] = round(accuracy["sqnr_db"], 1)
        for metric in report["verify"].get("task", {}).get("metrics", ()):
            row[f"{metric['name']} {bits}"] = metric["program"]
            if metric.get("float") is not None:
                row[f"{metric['name']} float"] = metric["float"]
        for entry in report["verify"]["program_vs_artifact"]:
            if entry["contract"] != "not_run":
                row[f"{entry['how']} {bits}"] = f"{entry['mismatches']} of {entry['values']:,}"
    return row


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nnie_networks")
    parser.add_argument("--networks", help=f"names, separated by commas, of {', '.join(NETWORKS)}; default: all")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    shared = shared_folder()
    if shared is None:
        raise SystemExit("set NNKIT_SHARED to the folder that holds models and images")
    wanted = arguments.networks.split(",") if arguments.networks else list(NETWORKS)
    unknown = [name for name in wanted if name not in NETWORKS]
    if unknown:
        raise SystemExit(f"no network {', '.join(unknown)}; there are: {', '.join(NETWORKS)}")
    with tempfile.TemporaryDirectory(prefix="nnkit-bench-") as name:
        rows = [measured(network, shared, Path(name)) for network in wanted]
    if arguments.json:
        show(rows, as_json=True)
        return
    for row in rows:
        show(
            [{"": key, "value": str(value)} for key, value in row.items() if key != "network"],
            as_json=False,
            title=str(row["network"]),
        )


if __name__ == "__main__":
    main()

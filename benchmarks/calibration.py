"""Calibration at scale: one process, two, and Dask with two workers, on the same images in the same run.

    NNKIT_SHARED=<folder> python -m benchmarks.calibration [--networks rfb,squeezenet] [--images 512] [--method mse]
                                                           [--json]

The networks are RFB-320 (240x320, 0.1 G multiply-accumulates) and SqueezeNet 1.0 (227x227, 0.8 G), the images are
`<folder>/images/photos`, repeated until there are enough. Seconds are wall time with everything in it: starting
processes or the cluster, opening sessions, decoding; CPU seconds are those of all processes together (not told of
Dask's). Speed-ups are against the first row: one process, which does everything in turn, as each of several does.
`two lanes` is what few images get: one process that has two images under way. `digest` tells tables apart: equal ones
are equal in every bit. Where a row says `killed`, a worker is killed once a third of the images are done.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from benchmarks.networks import shared_folder
from benchmarks.table import Cell, show
from nnkit.calibrate import Method, calibrate
from nnkit.calibrate.parts import calibrate_in_parts
from nnkit.calibrate.run import Naming
from nnkit.executors import ExecutorChoice
from nnkit.graph import Model
from nnkit.importers import import_caffe, import_onnx
from nnkit.preprocess import Preprocess
from nnkit.preprocess.settings import Resize
from nnkit.recipe import Calibration


@dataclass(frozen=True)
class Network:
    """A network of the shared folder (one file for ONNX, two for Caffe), and what its input wants of a picture."""

    title: str
    files: tuple[str, ...]
    color: Literal["rgb", "bgr"]
    mean: tuple[float, ...]
    scale: float

    def load(self, shared: Path) -> Model:
        """The imported model."""
        paths = [shared / name for name in self.files]
        return (import_onnx(*paths) if len(paths) == 1 else import_caffe(*paths)).model


_SQUEEZENET = "models/squeezenet_v10_dc/SqueezeNet"
NETWORKS = {
    "rfb": Network("RFB-320", ("quant_bench/rfb.onnx",), "rgb", (127.0,), 1.0 / 128.0),
    "squeezenet": Network(
        "SqueezeNet 1.0",
        (f"{_SQUEEZENET}_deploy.prototxt", f"{_SQUEEZENET}_v1.0_dc.caffemodel"),
        "bgr",
        (104.0, 117.0, 123.0),
        1.0,
    ),
}

ONE_PROCESS = "1 process"

ROWS: tuple[tuple[str, ExecutorChoice | None, bool], ...] = (
    (ONE_PROCESS, ExecutorChoice(workers=1), False),
    ("1 process, two lanes", None, False),
    ("2 processes", ExecutorChoice(workers=2), False),
    ("2 processes, killed", ExecutorChoice(workers=2), True),
    ("dask, 2 workers", ExecutorChoice("dask", workers=2), False),
    ("dask, 2 workers, killed", ExecutorChoice("dask", workers=2), True),
)


@dataclass(frozen=True)
class Measured:
    """Seconds of one run, and the digest of its table."""

    seconds: float
    cpu_seconds: float
    digest: str


def measure(
    network: Network,
    model: Model,
    images: list[Path],
    method: Method,
    choice: ExecutorChoice | None,
    *,
    kill: bool = False,
) -> Measured:
    """One run. choice: None for this process with its lanes."""
    (spec,) = model.inputs
    resize = Resize(spec.shape[2], spec.shape[3], "bilinear")
    preprocess = {spec.name: Preprocess(network.color, resize=resize, mean=network.mean, scale=(network.scale,))}
    sources = {spec.name: images}
    done = 0
    killed = False

    def progress(count: int) -> None:
        nonlocal done, killed
        done += count
        if kill and not killed and done * 3 >= len(images):
            killed = kill_a_worker()

    began, cpu_before = time.perf_counter(), cpu_seconds()
    if choice is None:
        stats = calibrate(model, sources, preprocess, method=method)
    else:
        stats = calibrate_in_parts(
            model,
            sources,
            preprocess,
            Calibration(method=method),
            Naming(),
            choice,
            checkpoint=None,
            progress=progress,
        )
    if kill and not killed:
        raise SystemExit("no worker was there to be killed")
    return Measured(time.perf_counter() - began, cpu_seconds() - cpu_before, stats.digest)


def cpu_seconds() -> float:
    """CPU time of this process and of the children that have ended, in seconds."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def kill_a_worker() -> bool:
    """Kill the busiest process below this one: a worker."""
    below = [process for process in psutil.Process().children(recursive=True) if process.is_running()]
    busiest: Callable[[psutil.Process], float] = lambda process: sum(process.cpu_times()[:2])  # noqa: E731
    if not below:
        return False
    os.kill(max(below, key=busiest).pid, signal.SIGKILL)
    return True


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default=",".join(NETWORKS), help="some of " + ", ".join(NETWORKS))
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--method", choices=("max", "mse"), default="mse")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    shared = shared_folder()
    if shared is None:
        raise SystemExit("set NNKIT_SHARED to the folder that holds quant_bench and images")
    unknown = set(arguments.networks.split(",")) - set(NETWORKS)
    if unknown:
        raise SystemExit(f"unknown networks: {', '.join(sorted(unknown))}; there are {', '.join(NETWORKS)}")
    photos = sorted((shared / "images" / "photos").iterdir())
    images = [photos[index % len(photos)] for index in range(arguments.images)]
    everything: list[dict[str, Cell]] = []
    for name in arguments.networks.split(","):
        found = list(rows(NETWORKS[name], shared, images, arguments.method))
        everything += found
        if not arguments.json:
            show(found, as_json=False, title=f"calibration of {name} on {len(images)} images, {arguments.method}")
        if len({row["digest"] for row in found}) != 1:
            raise SystemExit(f"the tables of {name} differ")
    if arguments.json:
        show(everything, as_json=True)


def rows(network: Network, shared: Path, images: list[Path], method: Method) -> Iterator[dict[str, Cell]]:
    """One row for each executor."""
    model = network.load(shared)
    measure(network, model, images[:1], method, ExecutorChoice(workers=1))  # what is imported at first use
    first: Measured | None = None
    for name, choice, kill in ROWS:
        found = measure(network, model, images, method, choice, kill=kill)
        first = first or found
        yield {
            "network": network.title,
            "executor": name,
            "seconds": round(found.seconds, 2),
            "cpu_seconds": None if choice is not None and choice.name == "dask" else round(found.cpu_seconds, 2),
            "images_per_second": round(len(images) / found.seconds, 1),
            "speed_up": round(first.seconds / found.seconds, 2),
            "digest": found.digest[:16],
        }


if __name__ == "__main__":
    main()

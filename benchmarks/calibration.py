"""Calibration at scale: one process, two, and Dask with two workers, on the same images in the same run.

    NNKIT_SHARED=<folder> python -m benchmarks.calibration [--images 512] [--method mse] [--json]

The network is RFB-320 (`<folder>/quant_bench/rfb.onnx`), the images are `<folder>/images/photos`, repeated until
there are enough. Seconds are wall time with everything in it: starting processes or the cluster, opening sessions,
decoding. Speed-ups are against the first two rows: one process held to one core, and one that decodes the next images
on a second core while the network runs. `digest` tells tables apart: equal ones are equal in every bit. In rows with
`killed`, a worker is killed as soon as a third of the images are done.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from benchmarks.networks import shared_folder
from benchmarks.table import Cell, show
from nnkit.calibrate.parts import calibrate_in_parts
from nnkit.executors import ExecutorChoice
from nnkit.graph import Model
from nnkit.importers import import_onnx
from nnkit.preprocess import Preprocess
from nnkit.preprocess.settings import Resize

MEAN, SCALE = 127.0, 1.0 / 128.0

ONE_CORE = "1 process, 1 core"

ROWS: tuple[tuple[str, ExecutorChoice, bool], ...] = (
    (ONE_CORE, ExecutorChoice(workers=1), False),
    ("1 process", ExecutorChoice(workers=1), False),
    ("2 processes", ExecutorChoice(workers=2), False),
    ("2 processes, killed", ExecutorChoice(workers=2), True),
    ("dask, 2 workers", ExecutorChoice("dask", workers=2), False),
    ("dask, 2 workers, killed", ExecutorChoice("dask", workers=2), True),
)


def measure(
    model: Model, images: list[Path], method: str, choice: ExecutorChoice, *, kill: bool
) -> tuple[float, str]:
    """Seconds and the table's digest."""
    (spec,) = model.inputs
    resize = Resize(spec.shape[2], spec.shape[3])
    preprocess = Preprocess("rgb", resize=resize, mean=(MEAN,), scale=(SCALE,))
    done = 0
    killed = False

    def progress(count: int) -> None:
        nonlocal done, killed
        done += count
        if kill and not killed and done * 3 >= len(images):
            killed = kill_a_worker()

    began = time.perf_counter()
    stats = calibrate_in_parts(
        model,
        {spec.name: images},
        {spec.name: preprocess},
        method="mse" if method == "mse" else "max",
        percentile=99.99,
        bad_images=0.0,
        where="",
        choice=choice,
        checkpoint=None,
        progress=progress,
    )
    if kill and not killed:
        raise SystemExit("no worker was there to be killed")
    return time.perf_counter() - began, stats.digest


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
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--method", choices=("max", "mse"), default="mse")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    shared = shared_folder()
    photos = sorted((shared / "images" / "photos").iterdir())
    images = [photos[index % len(photos)] for index in range(arguments.images)]
    model = import_onnx(shared / "quant_bench" / "rfb.onnx").model
    rows: list[dict[str, Cell]] = []
    times: dict[str, float] = {}
    cores = os.sched_getaffinity(0)
    for name, choice, kill in ROWS:
        os.sched_setaffinity(0, {min(cores)} if name == ONE_CORE else cores)
        times[name], digest = measure(model, images, arguments.method, choice, kill=kill)
        os.sched_setaffinity(0, cores)
        rows.append(
            {
                "executor": name,
                "seconds": round(times[name], 2),
                "images_per_second": round(len(images) / times[name], 1),
                "over_1_core": round(times[ONE_CORE] / times[name], 2),
                "over_1_process": round(times["1 process"] / times[name], 2) if "1 process" in times else None,
                "digest": digest[:16],
            }
        )
    same = len({row["digest"] for row in rows}) == 1
    show(rows, as_json=arguments.json, title=f"calibration of RFB-320 on {len(images)} images, {arguments.method}")
    if not same:
        raise SystemExit("the tables differ")


if __name__ == "__main__":
    main()

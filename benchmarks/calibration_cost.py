"""What calibration costs: seconds and growth of memory, each measurement in a process of its own.

    NNKIT_SHARED=... python -m benchmarks.calibration_cost [--many 2000] [--repeat 3] [--json]

64 images of the face detector `rfb` (and `--many` of them, again and again from the start), each tool as it comes:
nnkit in one process, its peer with its default threads. The least of `--repeat` times counts, nnkit and its peer in
turns. Imports, the network file and the images are there before the clock starts; sessions are part of what is
measured. nnkit counts on one thread while the network runs on another: its seconds need two free cores, its CPU
seconds do not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.networks import shared_folder
from benchmarks.table import Row, show

NETWORK = "rfb"
IMAGES = 64
PEER = "ONNX Runtime MinMax"
METHODS = {"nnkit max": "max", "nnkit MSE (histograms and search)": "mse", PEER: "peer"}


class Repeated:
    """A sequence of `count` items that goes through `items` again and again."""

    def __init__(self, items: Any, count: int) -> None:
        self._items, self._count = items, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Any:
        if index >= self._count:
            raise IndexError(index)
        return self._items[index % len(self._items)]


def rows(shared: Path, *, many: int | None, repeat: int) -> list[Row]:
    """One row for each method and number of images."""
    found: dict[tuple[str, int], list[dict[str, float]]] = {}
    for _ in range(repeat):
        for label, method in METHODS.items():
            found.setdefault((label, IMAGES), []).append(_measured(shared, method, IMAGES))
    if many is not None:
        for label, method in METHODS.items():
            if method != "peer":
                found[label, many] = [_measured(shared, method, many)]
    peer, peer_cpu = (min(result[key] for result in found[PEER, IMAGES]) for key in ("seconds", "cpu_seconds"))
    return [
        {
            "method": label,
            "images": images,
            "seconds": round(seconds := min(result["seconds"] for result in results), 2),
            "seconds/peer": round(seconds / images * IMAGES / peer, 2),
            "cpu seconds": round(cpu := min(result["cpu_seconds"] for result in results), 2),
            "cpu/peer": round(cpu / images * IMAGES / peer_cpu, 2),
            "peak growth MB": round(max(result["growth_bytes"] for result in results) / 1e6, 1),
        }
        for (label, images), results in found.items()
    ]


def _measured(shared: Path, method: str, images: int) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.calibration_cost", "--worker", method, "--count", str(images)],
        env={**os.environ, "NNKIT_SHARED": str(shared)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def _worker(shared: Path, method: str, images: int) -> dict[str, float]:
    from benchmarks.quantization import load_case

    case = load_case(shared / "quant_bench", NETWORK, None)
    sources = Repeated(case.calibration, images)
    with tempfile.TemporaryDirectory(prefix="nnkit-calibration-cost-") as folder:
        job = _peer(case, sources, Path(folder)) if method == "peer" else _ours(case, sources, method)
        before = _reset_peak()
        start, cpu = time.perf_counter(), time.process_time()
        job()
        return {
            "seconds": time.perf_counter() - start,
            "cpu_seconds": time.process_time() - cpu,
            "growth_bytes": _status("VmHWM") - before,
        }


def _ours(case: Any, sources: Repeated, method: Any) -> Callable[[], object]:
    import onnxruntime  # noqa: F401 - imports are not measured, and nnkit makes this one when it is needed

    from nnkit.calibrate import Job, observe, to_stats
    from nnkit.importers import ImportOptions, import_onnx

    model = import_onnx(case.path, ImportOptions(inputs={case.input_name: (1, *case.calibration.shape[1:])})).model

    def run() -> None:
        observed = observe(Job(model, {}, method != "max"), {case.input_name: sources})  # type: ignore[dict-item]
        to_stats(model, observed, method=method)

    return run


def _peer(case: Any, sources: Repeated, folder: Path) -> Callable[[], object]:
    from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod
    from onnxruntime.quantization.calibrate import create_calibrator

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._images: Iterator[Any] = iter(sources)  # type: ignore[call-overload]

        def get_next(self) -> dict[str, Any] | None:
            image = next(self._images, None)
            return None if image is None else {case.input_name: image[None]}

    def run() -> None:
        calibrator = create_calibrator(str(case.path), [], str(folder / "augmented.onnx"), CalibrationMethod.MinMax)
        calibrator.collect_data(Reader())
        calibrator.compute_data()

    return run


def _reset_peak() -> int:
    """Resident bytes now; the kernel's record of the peak starts here."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"this system does not tell {field}")


def main() -> None:
    """The command; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--many", type=int, default=None, help="also with so many images (minutes), nnkit alone")
    parser.add_argument("--repeat", type=int, default=3, help="measurements of each (default: 3)")
    parser.add_argument("--json", action="store_true", help="rows for machines")
    parser.add_argument("--worker", choices=list(METHODS.values()), help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, default=IMAGES, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    shared = shared_folder()
    if shared is None or not (shared / "quant_bench").is_dir():
        raise SystemExit("set NNKIT_SHARED to the folder that holds quant_bench")
    if chosen.worker is not None:
        sys.stdout.write(json.dumps(_worker(shared, chosen.worker, chosen.count)) + "\n")
        return
    show(rows(shared, many=chosen.many, repeat=chosen.repeat), as_json=chosen.json, title="calibration")


if __name__ == "__main__":
    main()

"""`hp: auto` on the TPU beside the vendor's own search for layers in floating point.

    python -m benchmarks.tpu_mixed [--networks tc_resnet:0.9998,mobilenet_v1:0.999] [--chips bm1684x]
                                   [--keep FOLDER] [--rows FILE] [--unseen COUNT] [--environment FOLDER] [--json]

Both get the same network, the same four calibration inputs and the same goal, the cosine behind a network's name:
nnkit as a gate beside `tags: {hp: auto}`, the scripts as `--expected_cos` of `run_calibration --search
search_qtable`. `layers`: that the search put into F16 (BF16 on the cv181x); `cosine`: of the released model on the
chip model against the float network, over unseen inputs; `cycles` of the compiler's simulator (bytes of the final
program on the cv181x); `seconds`: of the whole. `vendor_*`: the same of the scripts; `vendor_layers` is 0 where
they found the goal reached in INT8. Options and files are those of `benchmarks.tpu_zoo`. The exit code is 1 where
nnkit reaches less of the goal than the scripts, or as much with more cycles.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.table import Row, show
from benchmarks.tpu_end_to_end import vendor_environment
from benchmarks.tpu_toolchain import why_no_toolchain
from benchmarks.tpu_zoo import (
    FLOAT_LAYERS,
    Halves,
    add_options,
    by_scripts,
    compared,
    exported_network,
    with_gain,
    written_recipe,
)
from benchmarks.zoo.exported import Exported
from nnkit.api.preparing import Switches, builds, load
from nnkit.errors import NnkitError
from nnkit.pipeline import run
from nnkit.report.progress import Progress
from nnkit_tpu.chips import CV_CHIPS
from nnkit_tpu.compile import model_file

NETWORKS = "tc_resnet:0.9998,mobilenet_v1:0.999,face_features:0.9998"
CHIPS = "bm1684x"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each network and chip; 1 where nnkit is behind."""
    options = _options().parse_args(arguments)
    if missing := why_no_toolchain():
        return missing
    environment = None if options.alone else options.environment or vendor_environment()
    rows: list[Row] = []
    halves = Halves(options.rows)
    with tempfile.TemporaryDirectory(prefix="nnkit-tpu-mixed-") as temporary:
        for named in options.networks.split(","):
            name, goal = named.split(":")
            exported = exported_network(name, "torchscript", (options.keep or Path(temporary)) / name / "torchscript")
            if isinstance(exported, str):
                sys.stderr.write(f"{name}: not exported: {exported}\n")
                continue
            for chip in options.chips.split(","):
                key = {"network": name, "exporter": "torchscript", "chip": chip, "unseen": options.unseen}
                rows.append(_row(key, float(goal), exported, halves, environment))
                sys.stderr.write(f"{json.dumps(rows[-1])}\n")
    show(rows, as_json=options.json, title="layers in floating point, by nnkit's search and by the vendor's")
    return 1 if any(_is_behind(row) for row in rows) else 0


def _row(key: Mapping[str, Any], goal: float, exported: Exported, halves: Halves, environment: Path | None) -> Row:
    with tempfile.TemporaryDirectory(prefix="nnkit-tpu-mixed-") as temporary:
        folder = Path(temporary)
        row = {**key, "goal": goal, **halves.taken("nnkit", key, lambda: _by_nnkit(key, goal, exported, folder))}
        if environment is not None:
            theirs = halves.taken("vendor", key, lambda: _by_vendor(key, goal, exported, folder, environment))
            row |= theirs
    return with_gain(row)


def _by_nnkit(key: Mapping[str, Any], goal: float, exported: Exported, folder: Path) -> Row:
    chip, began = key["chip"], time.perf_counter()
    recipe = written_recipe(key["network"], chip, exported, folder, "{hp: auto}", f"{{cosine: {goal}}}")
    try:
        done = run(builds(load(recipe), [], Progress(quiet=True), Switches(cache=False))[0], folder / "out")
    except NnkitError as error:
        return {"status": "failed", "reason": str(error)[:300], "seconds": round(time.perf_counter() - began, 1)}
    report: Any = done.report
    groups = report["details"]["layer_groups"]["ours"]
    return {
        "status": report["status"],
        "layers": len(report["mixed_precision"]["chosen"]),
        **compared(done.folder / "artifact" / model_file(chip), chip, exported, key["unseen"]),
        "cycles": groups["bytes"] if chip in CV_CHIPS else groups["cycles"],
        "seconds": round(time.perf_counter() - began, 1),
    }


def _by_vendor(key: Mapping[str, Any], goal: float, exported: Exported, folder: Path, environment: Path) -> Row:
    began = time.perf_counter()
    search = ["--search", "search_qtable", "--expected_cos", str(goal), "--quantize_table", FLOAT_LAYERS]
    try:
        made = by_scripts(key, exported, folder, environment, (*search, "--chip", key["chip"]))
    except Exception as error:  # whatever it is, it is a row of the table
        made = {"vendor_status": f"failed: {str(error)[:200]}"}
    tables = sorted(folder.glob(f"vendor*/{FLOAT_LAYERS}"))
    lines = tables[-1].read_text(encoding="utf-8").splitlines() if tables else []
    return {
        **made,
        "vendor_layers": sum(bool(line.strip()) and not line.startswith("#") for line in lines),
        "vendor_seconds": round(time.perf_counter() - began, 1),
    }


def _is_behind(row: Row) -> bool:
    """Whether nnkit's model is further from the goal than the scripts', or as near with more cycles."""
    if row["status"] != "ok":
        return row.get("vendor_status") == "ok"
    if row.get("vendor_cosine") is None:
        return False
    ours, theirs = min(row["cosine"], row["goal"]), min(row["vendor_cosine"], row["goal"])
    return ours < theirs or (ours == theirs and row["cycles"] > (row["vendor_cycles"] or row["cycles"]))


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tpu_mixed")
    parser.add_argument("--networks", default=NETWORKS, help=f"NAME:COSINE, separated by commas; default: {NETWORKS}")
    parser.add_argument("--chips", default=CHIPS)
    add_options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""Networks as people export them, on the TPU, beside the vendor's own scripts on the same files.

    python -m benchmarks.tpu_zoo [--networks A,B] [--exporters torchscript] [--chips bm1684x]
                                 [--keep FOLDER] [--rows FILE] [--unseen COUNT] [--json]

The networks are those of `benchmarks.zoo`: all on the bm1684x, and every third on the bm1688 and the cv181x, in INT8.
`status`: `ok`, `refused`, `failed`; `mismatches`: values of the chip model beyond what the program allows;
`disagreements`: layers for which the compiler chose other numbers than predicted; `cosine`: of the released model's
outputs on the chip model against the float network, over all of `unseen` inputs that nobody has seen; `gain_db`: by
how many decibels nnkit's outputs are nearer to it than the scripts', on the mean of these inputs, and
`gain_error_db`, the standard error of that; `cycles` of the compiler's simulator (bytes of its final program on the
cv181x, whose cycles nobody tells); `method`: of calibration, as chosen.
`vendor_cycles` is empty where the scripts leave shapes for run time, as the simulator then sees the first part alone.
`vendor_*`: the same of the model that `model_transform`, `run_calibration` and `model_deploy` make with their
defaults; empty without a Python 3.10, which they need (`--environment` names an environment that has them). Where
their converter does not read the exported file, they get the network written anew (`benchmarks.scripts_readable`);
`vendor_read` says which: `as exported`, `rewritten`.
`--exporters`: `torchscript` unless told; the vendor's scripts read few of the files that `dynamo` writes.
`--keep` takes networks that `benchmarks.zoo --keep` has exported; others are exported here, which needs torch (extra
`zoo`). The vendor's compiler is installed where it is missing. `--rows` adds what is measured to a file, half a row
(`by`: `nnkit` or `vendor`) a line, and does not measure again what stands there: a long run can be interrupted. The
exit code is 1 where nnkit does not build what the scripts build, fails where they were not run, takes over 1.01 times
their cycles, or is further from the float network by over two standard errors (of less, other inputs may differ).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from benchmarks.scripts_readable import readable_by_the_scripts
from benchmarks.table import Row, show
from benchmarks.tpu_end_to_end import vendor_environment
from benchmarks.tpu_toolchain import why_no_toolchain
from benchmarks.zoo.exported import Exported
from nnkit.api.preparing import Switches, builds, load
from nnkit.errors import NnkitError
from nnkit.pipeline import run
from nnkit.quantize.judge import mean_gain
from nnkit.report.progress import Progress
from nnkit_tpu.chip_model import run_all_on_chip_model
from nnkit_tpu.chips import CV_CHIPS
from nnkit_tpu.compile import model_file
from nnkit_tpu.layer_group.vendor_files import read_profile, read_traffic
from nnkit_tpu.toolchain import require_toolchain

EVERY, MANY, THIRD = "bm1684x", ("bm1688", "cv181x"), 3
MOST_CYCLES = 1.01  # of the vendor's
UNSEEN = 64  # inputs that models are compared on, unless told
_AT_A_TIME = 16  # of them, on the chip model, which may take ten minutes
_ERRORS = 2.0  # standard errors that a gain or loss is told by
FLOAT_LAYERS = "float_layers"
"""The file in which a search of the scripts names layers in floating point."""

_READS, _DEPLOYS = "model_transform.py", "model_deploy.py"
_DYNAMIC = "run_mode TPU_DYNAMIC"
_SCRIPT_TIMEOUT_S = 7200.0
_EMPTY: Mapping[str, Any] = MappingProxyType(
    {"vendor_status": "", "vendor_read": "", "vendor_cosine": None, "vendor_cycles": None}
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each network, exporter and chip; 1 where one is worse than the vendor's scripts."""
    options = _options().parse_args(arguments)
    if missing := why_no_toolchain():
        return missing
    environment = None if options.alone else options.environment or vendor_environment()
    if environment is None and not options.alone:
        sys.stderr.write("no Python 3.10 is here, which the vendor's scripts need: nnkit alone is measured\n")
    rows: list[Row] = []
    halves = Halves(options.rows)
    names = options.networks.split(",") if options.networks else _names(options.keep)
    with tempfile.TemporaryDirectory(prefix="nnkit-tpu-zoo-") as temporary:
        for index, name in enumerate(names):
            for exporter in options.exporters.split(","):
                exported = exported_network(name, exporter, (options.keep or Path(temporary)) / name / exporter)
                for chip in options.chips.split(",") if options.chips else _chips(index):
                    key = {"network": name, "exporter": exporter, "chip": chip, "unseen": options.unseen}
                    row = _row(key, exported, halves, environment)
                    rows.append(row)
                    sys.stderr.write(f"{json.dumps(rows[-1])}\n")
    show(rows, as_json=options.json, title="networks as exported, on the TPU")
    return 1 if any(is_worse(row) for row in rows) else 0


def _row(key: Mapping[str, Any], exported: Exported | str, halves: Halves, environment: Path | None) -> Row:
    with tempfile.TemporaryDirectory(prefix="nnkit-tpu-zoo-") as temporary:
        folder = Path(temporary)
        row = {**key, **_EMPTY, **halves.taken("nnkit", key, lambda: by_nnkit(key, exported, folder))}
        if environment is not None:
            row |= halves.taken("vendor", key, lambda: by_vendor(key, exported, folder, environment))
    return with_gain(row)


def with_gain(row: Mapping[str, Any]) -> Row:
    """The row with the mean gain over the scripts instead of every input's decibels."""
    ours, theirs = row.get("each_db"), row.get("vendor_each_db")
    gain = mean_gain(np.array(theirs), np.array(ours)) if ours and theirs and len(ours) == len(theirs) else None
    kept = {name: value for name, value in row.items() if not name.endswith("each_db")}
    if gain is None:
        return {**kept, "gain_db": None, "gain_error_db": None}
    return {**kept, "gain_db": round(gain.mean_db, 3), "gain_error_db": round(gain.error_db, 3)}


class Halves:
    """What was measured of the rows, on disk where a file is named."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else []
        self._kept = {self._key(half): half for half in map(json.loads, lines)}

    def taken(self, by: str, key: Mapping[str, Any], measure: Callable[[], Row]) -> dict[str, Any]:
        """The half of a row, measured where it is not there yet."""
        half = {**key, "by": by}
        if self._key(half) not in self._kept:
            half |= measure()
            self._kept[self._key(half)] = half
            if self._path is not None:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(f"{json.dumps(half)}\n")
        return {name: value for name, value in self._kept[self._key(half)].items() if name != "by"}

    @staticmethod
    def _key(half: Mapping[str, Any]) -> tuple[str, ...]:
        return half["by"], half["network"], half["exporter"], half["chip"], str(half.get("unseen", UNSEEN))


def by_nnkit(key: Mapping[str, Any], exported: Exported | str, folder: Path) -> Row:
    """nnkit's half of a row. exported: the files, or why there are none."""
    if isinstance(exported, str):
        return {"status": "refused", "reason": f"not exported: {exported}"}
    began = time.perf_counter()
    try:
        row = _by_nnkit(key, exported, folder)
    except NnkitError as error:
        row = {"status": "refused" if error.exit_code == 3 else "failed", "reason": str(error)}
    except Exception as error:  # whatever it is, it is a row of the table
        row = {"status": "failed", "reason": f"{type(error).__name__}: {error}"}
    return {**row, "seconds": round(time.perf_counter() - began, 1)}


def by_vendor(key: Mapping[str, Any], exported: Exported | str, folder: Path, environment: Path) -> Row:
    """The half of a row that the vendor's scripts fill."""
    if isinstance(exported, str):
        return {**_EMPTY}
    try:
        return by_scripts(key, exported, folder, environment)
    except (NnkitError, ScriptError, subprocess.TimeoutExpired) as error:
        return {**_EMPTY, "vendor_status": f"failed: {str(error)[:200]}"}


def _by_nnkit(key: Mapping[str, Any], exported: Exported, folder: Path) -> dict[str, Any]:
    """A whole run with the target's defaults."""
    chip, recipe = key["chip"], written_recipe(key["network"], key["chip"], exported, folder)
    build = builds(load(recipe), [], Progress(quiet=True), Switches(cache=False))[0]
    done = run(build, folder / "out")
    report: Any = done.report
    proof = report["verify"]["program_vs_artifact"]
    details = report["details"]
    groups = details["layer_groups"]["ours"]
    first = next((entry["first_difference"] for entry in proof if entry["mismatches"]), "")
    told = [entry["note"] for entry in proof if entry.get("note")]
    return {
        "status": "ok" if report["status"] == "ok" else "failed",
        "mismatches": sum(entry["mismatches"] for entry in proof),
        "disagreements": len({each["layer"] for each in details["prediction"]["disagreements"]}),
        **compared(done.folder / "artifact" / model_file(chip), chip, exported, key["unseen"]),
        "cycles": groups["bytes"] if chip in CV_CHIPS else groups["cycles"],
        "method": report["calibration"]["method"],
        "reason": "; ".join([str(first), *told] if first else told),
    }


def written_recipe(name: str, chip: str, exported: Exported, folder: Path, tags: str = "", gates: str = "") -> Path:
    """A recipe with the target's defaults. tags, gates: what stands behind these keys."""
    beside, sections, verified = exported.path.parent, [], []
    for given in exported.inputs:
        files = json.dumps(str(beside / f"{given}_*.npy"))
        sections.append(f"    {given}: {{calibration: {{images: {files}}}}}\n")
        verified.append(f"{given}: {json.dumps(str(beside / f'verify_{given}_*.npy'))}")
    recipe = folder / "recipe.yaml"
    recipe.write_text(
        f"nnkit: 1\nname: {name}\nmodel:\n  path: {json.dumps(str(exported.path))}\n  inputs:\n{''.join(sections)}"
        f"targets:\n  tpu: {{chip: {chip}{tags and f', tags: {tags}'}}}\n"
        f"verify: {{images: {{{', '.join(verified)}}}{gates and f', gates: {gates}'}}}\n",
        encoding="utf-8",
    )
    return recipe


class ScriptError(Exception):
    """A script of the vendor's failed."""


class ReadError(ScriptError):
    """The one that reads the network did."""


def by_scripts(
    key: Mapping[str, Any], exported: Exported, folder: Path, environment: Path, searched: Sequence[str] = ()
) -> dict[str, Any]:
    """By the scripts on the exported file; on the network written anew where they do not read that.

    searched: more of `run_calibration`, which then may choose layers in floating point.
    """
    try:
        return {**_by_vendor(key, exported, folder / "vendor", environment, searched), "vendor_read": "as exported"}
    except ReadError:
        (folder / "rewritten").mkdir()
        rewritten = readable_by_the_scripts(exported, folder / "rewritten")
        if rewritten is None:
            raise
        made = _by_vendor(key, rewritten, folder / "vendor_again", environment, searched)
        return {**made, "vendor_read": "rewritten"}


def _by_vendor(
    key: Mapping[str, Any], exported: Exported, folder: Path, environment: Path, searched: Sequence[str]
) -> dict[str, Any]:
    """The three scripts with their defaults, and their model on the chip model."""
    name, chip = key["network"], key["chip"]
    folder.mkdir()
    (folder / "data").mkdir()
    given = _samples(exported, "")
    for index, sample in enumerate(given):
        np.savez(folder / "data" / f"{index}.npz", **sample)  # type: ignore[arg-type]
    scripts = environment / "bin"
    shapes = json.dumps([list(given[0][key].shape) for key in exported.inputs]).replace(" ", "")
    model = f"vendor.{'cvimodel' if chip in CV_CHIPS else 'bmodel'}"
    for command in (
        [
            *(_READS, "--model_name", name, "--model_def", str(exported.path)),
            *("--input_shapes", shapes, "--mlir", "net.mlir"),
        ],
        [
            *("run_calibration.py", "net.mlir", "--dataset", "data", "--input_num", str(len(given)), "-o", "table"),
            *searched,
        ],
        [
            *(_DEPLOYS, "--mlir", "net.mlir", "--quantize", "INT8", "--processor", chip),
            *("--calibration_table", "table", "--model", model, "--debug"),
        ],
    ):
        if command[0] == _DEPLOYS and (folder / FLOAT_LAYERS).exists():
            command += ["--quantize_table", FLOAT_LAYERS]
        done = subprocess.run(
            [str(scripts / command[0]), *command[1:]],
            cwd=folder,
            env={**os.environ, "PATH": f"{scripts}:{os.environ.get('PATH', '')}:{_drawing_nothing(folder)}"},
            capture_output=True,
            text=True,
            timeout=_SCRIPT_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            failed = ReadError if command[0] == _READS else ScriptError
            raise failed(f"{command[0]}: {(done.stderr or done.stdout).strip()[-150:]}")
    (file,) = folder.glob("*_final.mlir")
    final = file.read_text(encoding="utf-8")
    on_cv = chip in CV_CHIPS
    cost = read_traffic(final).total_bytes if on_cv else vendor_cycles(final, folder / "compiler_profile_0.txt")
    return {
        "vendor_status": "ok",
        **compared(folder / model, chip, exported, key["unseen"], "vendor_"),
        "vendor_cycles": cost,
    }


def _drawing_nothing(folder: Path) -> Path:
    """A folder with a `dot` for a search that ends in a picture, and without Graphviz in an error."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "dot").write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    (tools / "dot").chmod(0o755)
    return tools


def vendor_cycles(final: str, profile: Path) -> int | None:
    """Cycles of the whole model; None where a part of the final program has dynamic shapes, which the compiler's
    simulator leaves out."""
    return None if _DYNAMIC in final else read_profile(profile.read_text(errors="replace")).end_cycles


def compared(model: Path, chip: str, exported: Exported, unseen: int, whose: str = "") -> dict[str, Any]:
    """Cosine of a compiled model's outputs on the chip model against ONNX Runtime's, over so many unseen inputs, and
    every input's decibels; nothing where the model's outputs are not those of the network, in their order."""
    samples = _unseen(exported, unseen)
    parts = [samples[first : first + _AT_A_TIME] for first in range(0, len(samples), _AT_A_TIME)]
    outputs = [each for part in parts for each in run_all_on_chip_model(require_toolchain(), model, chip, part)]
    session = onnxruntime.InferenceSession(str(exported.path), providers=["CPUExecutionProvider"])
    ours = [[value.ravel().astype(np.float64) for value in each.values()] for each in outputs]
    true = [[value.ravel().astype(np.float64) for value in session.run(None, dict(each))] for each in samples]
    if [[v.size for v in each] for each in ours] != [[v.size for v in each] for each in true]:
        return {f"{whose}cosine": None, f"{whose}each_db": []}
    a, b = (np.stack([np.concatenate(each) for each in both]) for both in (ours, true))
    cosine = float(np.vdot(a, b) / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-30))
    errors, squares = (np.maximum(np.square(each).sum(axis=1), 1e-30) for each in (a - b, b))
    decibels = np.round(10.0 * np.log10(squares / errors), 3).tolist()
    return {f"{whose}cosine": round(cosine, 6), f"{whose}each_db": decibels}


def is_worse(row: Row) -> bool:
    """Whether the row makes the exit code 1."""
    if row["status"] != "ok":
        return row["vendor_status"] == "ok" or (row["status"] == "failed" and not row["vendor_status"])
    ours, theirs = row.get("cycles"), row.get("vendor_cycles")
    if isinstance(ours, int) and isinstance(theirs, int) and ours > MOST_CYCLES * theirs:
        return True
    gain = row.get("gain_db")
    return isinstance(gain, float) and gain < -_ERRORS * float(row["gain_error_db"])


def _unseen(exported: Exported, count: int) -> list[dict[str, NDArray[Any]]]:
    """Inputs to measure on, as those that networks are exported with: normal, or ids of tokens."""
    like, random = _samples(exported, "verify_"), np.random.default_rng(count)
    tokens = {key: max(int(sample[key].max()) for sample in like) + 1 for key in exported.inputs}
    return [
        {
            key: random.integers(0, tokens[key], value.shape, np.int64)
            if value.dtype.kind == "i"
            else random.normal(0, 1, value.shape).astype(np.float32)
            for key, value in like[0].items()
        }
        for _ in range(count)
    ]


def _samples(exported: Exported, prefix: str) -> list[dict[str, NDArray[Any]]]:
    """The inputs to calibrate on (no prefix) or to verify on."""
    by_input = {key: sorted(exported.path.parent.glob(f"{prefix}{key}_*.npy")) for key in exported.inputs}
    count = min(len(paths) for paths in by_input.values())
    return [{key: np.load(paths[index]) for key, paths in by_input.items()} for index in range(count)]


def _chips(index: int) -> Sequence[str]:
    return (EVERY, *(MANY if index % THIRD == 0 else ()))


def _names(kept: Path | None) -> Sequence[str]:
    """The networks that are kept; without any, all of the zoo."""
    if kept is not None and kept.is_dir():
        return sorted(folder.name for folder in kept.iterdir() if folder.is_dir())
    from benchmarks.zoo.catalogue import NETWORKS

    return tuple(NETWORKS)


def exported_network(name: str, exporter: str, folder: Path) -> Exported | str:
    """The kept files, or those that are exported now; or the exporter's error."""
    path = folder / f"{name}.onnx"
    if path.is_file():
        proto = onnx.load(path, load_external_data=False)
        constants = {each.name for each in proto.graph.initializer}
        return Exported(path, tuple(each.name for each in proto.graph.input if each.name not in constants))
    from benchmarks.zoo.export import EXPORTERS, export

    folder.mkdir(parents=True, exist_ok=True)
    try:
        return export(name, next(each for each in EXPORTERS if each == exporter), folder)
    except Exception as error:  # torch's exporters raise all sorts; the row says what
        return f"{type(error).__name__}: {error}".split("\n")[0]


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tpu_zoo")
    parser.add_argument("--networks", help="names, separated by commas; default: all")
    parser.add_argument("--exporters", default="torchscript", help="torchscript, dynamo")
    parser.add_argument("--chips", help=f"default: {EVERY}, and for every third network {' and '.join(MANY)}")
    add_options(parser)
    return parser


def add_options(parser: argparse.ArgumentParser) -> None:
    """What every benchmark beside the scripts takes."""
    parser.add_argument("--keep", type=Path, help="folder of networks that `benchmarks.zoo --keep` has exported")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="what was measured: read and added to")
    parser.add_argument("--unseen", type=int, default=UNSEEN, metavar="COUNT", help="inputs that a cosine is over")
    parser.add_argument("--environment", type=Path, help="a virtual environment that has the vendor's scripts")
    parser.add_argument("--alone", action="store_true", help="without the vendor's scripts")
    parser.add_argument("--json", action="store_true")


if __name__ == "__main__":
    sys.exit(main())

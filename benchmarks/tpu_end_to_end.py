"""From ONNX and 8 inputs to a verified INT8 bmodel: nnkit against the vendor's own scripts, in one run.

    python -m benchmarks.tpu_end_to_end [--nets squeezenet,resnet50] [--run] [--environment VENV] [--json]

`stages`: nnkit's import, calibration, quantisation and compilation with the compiler's own groups, meanwhile the
simulation of one input, then the bmodel on the chip model against that, bit for bit, and against ONNX Runtime; in one
fresh process. `quick`: the same with `layer_group: quick`, without the compiler's search for groups; what that costs
in cycles stands beside it. `run`: all of `nnkit run` without its cache, which also plans and proves its own layer
groups, tries them beside the compiler's, compares every inner value of a second model and packs a release.
The vendor: `model_transform`, `run_calibration`, `model_deploy`, with the comparisons that they make by default. All
calibrate on the same 8 inputs and verify on the first of them; a cosine is that of a bmodel on the chip model against
ONNX Runtime, over inputs that nobody has seen, and the difference of the two cosines is taken input by input. The
vendor's scripts need Python 3.10: where one is found, they are installed once into the cache folder (several GB);
where none is, nnkit alone is measured.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from benchmarks.table import Row, ratio, show
from benchmarks.tpu_networks import resnet50, squeezenet
from nnkit.cache import default_folder
from nnkit_tpu.chip_model import run_all_on_chip_model, run_on_chip_model
from nnkit_tpu.layer_group.vendor_files import read_profile
from nnkit_tpu.toolchain import Toolchain, find_toolchain, require_toolchain
from nnkit_tpu.toolchain.wheel import PACKAGE, VERSION

CHIP = "bm1684x"
CALIBRATION_INPUTS = 8
LEAST_COSINE = 0.999
REQUIREMENTS = (f"{PACKAGE}[onnx]=={VERSION}", "torch==2.13.0", "numpy==1.24.3", "psutil", "setuptools==59.6.0")
_BUNDLED_C_LIBRARY = ("libc.so*", "libm.so*", "libpthread.so*")  # older than a newer system's own libraries need

NETWORKS: Mapping[str, tuple[Callable[[], onnx.ModelProto], int]] = MappingProxyType(
    {"squeezenet": (lambda: squeezenet(size=128), 128), "resnet50": (resnet50, 224)}
)
"""By name: what builds it, and the side of its input [1, 3, side, side]."""

_RECIPE = """nnkit: 1
name: {name}
model:
  path: network.onnx
  inputs:
    input: {{shape: [1, 3, {side}, {side}], calibration: {{images: calibration/*.npy}}}}
targets:
  tpu: {{chip: {chip}}}
verify: {{images: calibration/0.npy}}
release: {{version: 1.0.0}}
"""


@dataclass(frozen=True)
class Cost:
    """The time that one or several commands took, their children included."""

    wall_s: float
    cpu_s: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.wall_s + other.wall_s, self.cpu_s + other.cpu_s)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; the exit code is 1 where quick stages are less than 5 times as fast, or less accurate."""
    options = _options().parse_args(arguments)
    if options.stages is not None:
        stages(options.stages, options.into, search=not options.quick)
        return 0
    toolchain = find_toolchain()
    if toolchain is None:
        sys.stderr.write("the TPU toolchain is not installed: run `nnkit doctor --install tpu`\n")
        return 0
    environment = options.environment or vendor_environment()
    if environment is None:
        sys.stderr.write("no Python 3.10 is here, which the vendor's scripts need: nnkit alone is measured\n")
    rows: list[Row] = []
    for name in options.nets.split(","):
        with tempfile.TemporaryDirectory(prefix="nnkit-end-to-end-") as temporary:
            rows.append(measured(name, Path(temporary), toolchain, environment, options.held_out, whole=options.run))
        sys.stderr.write(f"{name}: done\n")
    loads = " ".join(f"{load:.1f}" for load in os.getloadavg())
    show(rows, as_json=options.json, title=f"ONNX + {CALIBRATION_INPUTS} inputs -> verified bmodel (load {loads})")
    failed = [
        row for row in rows if environment is not None and not (row["quick faster"] >= 5 and row["as accurate"])
    ]  # type: ignore[operator]
    return 1 if failed else 0


def measured(
    name: str, folder: Path, toolchain: Toolchain, environment: Path | None, held_out_inputs: int, *, whole: bool
) -> Row:
    """All ways from the same files, one after the other; whole: `nnkit run` too."""
    build, side = NETWORKS[name]
    onnx.save(build(), folder / "network.onnx")
    random = np.random.default_rng(side)
    count = CALIBRATION_INPUTS + held_out_inputs
    inputs = [random.normal(0, 1, (1, 3, side, side)).astype(np.float32) for _ in range(count)]
    (folder / "calibration").mkdir()
    (folder / "vendor_data").mkdir()
    for index, values in enumerate(inputs[:CALIBRATION_INPUTS]):
        np.save(folder / "calibration" / f"{index}.npy", values)
        np.savez(folder / "vendor_data" / f"{index}.npz", input=values)
    held_out = inputs[CALIBRATION_INPUTS:]
    truth = by_onnx_runtime(folder / "network.onnx", held_out)
    load = os.getloadavg()[0]
    command = [sys.executable, "-m", "benchmarks.tpu_end_to_end", "--stages", str(folder), "--into"]
    ours = _timed([*command, "searched"], Path.cwd(), folder)
    quick = _timed([*command, "quick", "--quick"], Path.cwd(), folder)
    cosine = cosines(toolchain, folder / "searched" / "net.bmodel", held_out, truth)
    if cosines(toolchain, folder / "quick" / "net.bmodel", held_out, truth) != cosine:
        raise SystemExit("other groups give other values")
    row: dict[str, Any] = {
        "network": name,
        "load before": load,
        "stages wall s": ours.wall_s,
        "stages CPU s": ours.cpu_s,
        "quick wall s": quick.wall_s,
        "quick CPU s": quick.cpu_s,
        "cosine": _text(cosine),
        "quick cycles": f"{_cycles(folder / 'quick') / _cycles(folder / 'searched') - 1:+.1%}",
    }
    if whole:
        run = nnkit_run(name, side, folder)
        found = cosines(toolchain, folder / "out" / name / "tpu" / "artifact" / "net.bmodel", held_out, truth)
        row |= {"run wall s": run.wall_s, "run CPU s": run.cpu_s, "run cosine": _text(found)}
    if environment is None:
        return row
    theirs = vendor_scripts(name, side, folder, environment)
    peer = cosines(toolchain, folder / "vendor.bmodel", held_out, truth)
    differences = np.array(cosine) - np.array(peer)
    error = float(differences.std(ddof=1) / len(differences) ** 0.5)
    return {
        **row,
        "vendor wall s": theirs.wall_s,
        "vendor CPU s": theirs.cpu_s,
        "vendor cosine": _text(peer),
        "faster": ratio(theirs.wall_s, ours.wall_s),
        "quick faster": ratio(theirs.wall_s, quick.wall_s),
        "CPU ratio": ratio(theirs.cpu_s, ours.cpu_s),
        "ours - vendor": f"{differences.mean():+.1e} (standard error {error:.1e})",
        "as accurate": float(differences.mean()) >= -2 * error,  # not below by more than chance explains
    }


def _text(found: Sequence[float]) -> str:
    return f"{np.mean(found):.6f} ({min(found):.6f})"


def _cycles(folder: Path) -> int:
    """Cycles of the model in `folder`, by the compiler's simulator."""
    return read_profile((folder / "compiler_profile_0.txt").read_text(errors="replace")).end_cycles


def stages(folder: Path, into: str, *, search: bool) -> None:
    """The network in `folder` to `folder/<into>/net.bmodel`; SystemExit where the chip model does not agree.

    search: whether the compiler looks for the best groups.
    """
    from nnkit.calibrate.run import calibrate
    from nnkit.importers.onnx_importer import import_onnx
    from nnkit.program.inputs import quantized_inputs
    from nnkit.recipe.sections import Calibration
    from nnkit.rewrite import RewriteLog
    from nnkit.samples import Sample
    from nnkit.simulate import simulate
    from nnkit.target import Quantization
    from nnkit_tpu.compile import CompileOptions, compile_graph
    from nnkit_tpu.options import TpuOptions
    from nnkit_tpu.quantize import graph_of, table_ranges
    from nnkit_tpu.target import TpuTarget

    paths = [folder / "calibration" / f"{index}.npy" for index in range(CALIBRATION_INPUTS)]
    model = import_onnx(folder / "network.onnx").model
    statistics = calibrate(model, {"input": paths}, {})
    wanted = Quantization("network", statistics, Calibration(), {}, lambda _: [])
    target, options = TpuTarget(), TpuOptions(chip=CHIP)
    program = target.quantize(target.lower(model, RewriteLog(), options), wanted, options)
    graph = graph_of(program)
    first = np.load(paths[0])
    given = quantized_inputs(program, Sample("first", {"input": first}))
    toolchain = require_toolchain()
    (folder / into).mkdir()
    with ThreadPoolExecutor(max_workers=1) as beside:
        simulated = beside.submit(simulate, program, given)
        real = beside.submit(by_onnx_runtime, folder / "network.onnx", [first])
        ranges = table_ranges(graph, statistics.ranges, CHIP)
        options = CompileOptions(CHIP)
        compiled = compile_graph(toolchain, graph, options, folder / into, ranges=ranges, search=search)
        expected, (truth,) = simulated.result()[program.outputs[0]], real.result()
    (output,) = run_on_chip_model(toolchain, compiled.model, CHIP, {"input": first}).values()
    scale = program.tensors[program.outputs[0]].format.scale[0]
    if not np.array_equal(np.rint(output.astype(np.float64) / scale).ravel(), expected.ravel()):
        raise SystemExit("the bmodel gives other values than nnkit's simulation")
    cosine = _cosine(output, truth)
    if not cosine >= LEAST_COSINE:
        raise SystemExit(f"the bmodel gives a cosine of {cosine:.6f}, {LEAST_COSINE} is asked for")


def nnkit_run(name: str, side: int, folder: Path) -> Cost:
    """`nnkit run` from nothing to the package."""
    (folder / "recipe.yaml").write_text(_RECIPE.format(name=name, side=side, chip=CHIP), encoding="utf-8")
    return _timed([sys.executable, "-m", "nnkit", "run", "recipe.yaml", "--no-cache"], folder, folder)


def vendor_scripts(name: str, side: int, folder: Path, environment: Path) -> Cost:
    """The three scripts, as the vendor's manual calls them."""
    scripts = environment / "bin"
    search = {"PATH": f"{scripts}:{os.environ.get('PATH', '')}"}
    transform = [
        *(f"{scripts}/model_transform.py", "--model_name", name, "--model_def", "network.onnx"),
        *("--input_shapes", f"[[1,3,{side},{side}]]", "--mlir", f"{name}.mlir"),
        *("--test_input", "vendor_data/0.npz", "--test_result", "top_outputs.npz"),
    ]
    calibrate = [
        *(f"{scripts}/run_calibration.py", f"{name}.mlir", "--dataset", "vendor_data"),
        *("--input_num", str(CALIBRATION_INPUTS), "-o", "calibration_table"),
    ]
    deploy = [
        *(f"{scripts}/model_deploy.py", "--mlir", f"{name}.mlir", "--quantize", "INT8", "--processor", CHIP),
        *("--calibration_table", "calibration_table", "--test_input", f"{name}_in_f32.npz"),
        *("--test_reference", "top_outputs.npz", "--tolerance", "0.8,0.4", "--model", "vendor.bmodel"),
    ]
    costs = [_timed(command, folder, folder, search) for command in (transform, calibrate, deploy)]
    return costs[0] + costs[1] + costs[2]


def _timed(
    command: Sequence[str], folder: Path, log_folder: Path, environment: Mapping[str, str] | None = None
) -> Cost:
    """Runs a command in `folder`; SystemExit with the end of its log where it fails."""
    log_path = log_folder / "log.txt"
    begin = time.monotonic()
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **(environment or {})}, stdout=log, stderr=subprocess.STDOUT
        )
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    cost = Cost(time.monotonic() - begin, usage.ru_utime + usage.ru_stime)
    if process.returncode != 0:
        end = log_path.read_text(encoding="utf-8", errors="replace")[-2000:]
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}\n{end}")
    return cost


def by_onnx_runtime(path: Path, inputs: Sequence[NDArray[np.float32]]) -> list[NDArray[np.float32]]:
    """The network's output for each input."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return [session.run(None, {"input": values})[0] for values in inputs]


def cosines(
    toolchain: Toolchain, model: Path, inputs: Sequence[NDArray[Any]], truth: Sequence[NDArray[Any]]
) -> list[float]:
    """Cosine of the model's only output on the chip model against `truth`, for each input."""
    outputs = run_all_on_chip_model(toolchain, model, CHIP, [{"input": values} for values in inputs])
    found = []
    for given, expected in zip(outputs, truth, strict=True):
        (output,) = given.values()
        found.append(_cosine(output, expected))
    return found


def _cosine(one: NDArray[Any], other: NDArray[Any]) -> float:
    a, b = one.astype(np.float64).ravel(), other.astype(np.float64).ravel()
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def python_310() -> Path | None:
    """A Python 3.10 on PATH, or one that pyenv has."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which("python3.10"), *sorted(pyenv.glob("3.10.*/bin/python3.10"), reverse=True)]
    for candidate in candidates:
        if candidate is None:
            continue
        done = subprocess.run([str(candidate), "-c", "import ensurepip, venv"], capture_output=True, check=False)
        if done.returncode == 0:
            return Path(candidate)
    return None


def vendor_environment() -> Path | None:
    """The environment with the vendor's scripts, made where it is missing; None without a Python 3.10."""
    folder = default_folder() / "benchmarks" / f"{PACKAGE}-{VERSION}"
    complete = folder / "complete"
    if complete.exists():
        return folder
    python = python_310()
    if python is None:
        return None
    sys.stderr.write("installing the vendor's scripts; this takes minutes\n")
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([str(python), "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    for requirement in REQUIREMENTS:  # one by one: the package pins older tools than torch asks for
        subprocess.run([*pip, requirement], check=True)
    libraries = folder / "lib" / "python3.10" / "site-packages" / PACKAGE / "lib" / "third_party"
    for pattern in _BUNDLED_C_LIBRARY:
        for library in libraries.glob(pattern):
            library.unlink()
    complete.touch()
    return folder


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nets", default=",".join(NETWORKS), help=f"of {', '.join(NETWORKS)}")
    parser.add_argument("--environment", type=Path, help="a virtual environment that has the vendor's scripts")
    parser.add_argument("--held-out", type=int, default=8, metavar="N", help="inputs that a cosine is taken over")
    parser.add_argument("--run", action="store_true", help="measure all of `nnkit run` too")
    parser.add_argument("--stages", type=Path, metavar="FOLDER", help="the network in FOLDER to a bmodel; no table")
    parser.add_argument(
        "--into", default="compiled", metavar="NAME", help="of --stages: folder in FOLDER for its files"
    )
    parser.add_argument("--quick", action="store_true", help="of --stages: without the search for groups")
    parser.add_argument("--json", action="store_true", help="rows as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())

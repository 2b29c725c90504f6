"""The C of ansi_c on microcontrollers and on this machine: instructions, time, memory and code, peers beside it.

    python -m benchmarks.mcu [--networks a,b,c,d] [--precisions float32,int8] [--on cortex-m4,host] [--json]

Every value of every layer is compared first. Instruction counts are exact. On the host the fastest of several runs is
told, by turns with ONNX Runtime's of the float network, both on one thread: the time that the thread has the
processor, so that it counts no interruption by what else runs on the machine.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.networks import shared_folder
from benchmarks.table import Row, ratio, show
from nnkit import pipeline
from nnkit.api.preparing import load
from nnkit.boards import BOARDS
from nnkit.builds import BuiltFolder, open_build
from nnkit.cache import StageCache
from nnkit.program import macs
from nnkit.program.inputs import quantized_inputs
from nnkit.reading import read_onnx
from nnkit.report.progress import Progress
from nnkit.runner import Runner
from nnkit.samples import Sample
from nnkit.stages import Build
from nnkit.target import AnyTarget, load_target
from nnkit.verify.artifact import ArtifactVerdict, compare_artifact
from nnkit_ansi_c.runner import described, input_bytes

NETWORKS = {"a": "a_squeezenet11", "b": "b_mbv1_025", "c": "c_resnet8", "d": "d_dscnn"}
L1_VALUES = {"a": 303_168, "b": 55_296, "c": 49_152, "d": 16_000}
"""Values that live at once, layer by layer, the input among them: the least without any overlap."""
VALUE_BYTES = {"float32": 4, "int16": 2, "int8": 1}
HOST_FLAGS = ("-O3", "-march=x86-64-v3", "-ffp-contract=fast")
PEERS = {
    "a int8 cortex-m4": "TFLM + CMSIS-NN 178.7 M",
    "b int8 cortex-m4": "TFLM + CMSIS-NN 25.9 M",
    "c int8 cortex-m4": "TFLM + CMSIS-NN 30.0 M, onnx2c 110.8 M",
    "d int8 cortex-m4": "TFLM + CMSIS-NN 7.87 M, onnx2c 23.4 M",
    "b float32 cortex-m4": "onnx2c 54.1 M",
    "c float32 cortex-m4": "emx 91.9 M, onnx2c 116.2 M, TFLM 88.1 M",
    "d float32 cortex-m4": "emx 15.5 M, onnx2c 19.9 M, TFLM 35.2 M",
    "a float32 host": "onnx2code 9 x, emx 25 x, onnx2c 51 x ONNX Runtime",
    "b float32 host": "onnx2c 8.7 x, emx 10 x ONNX Runtime",
    "c float32 host": "emx 24 x, onnx2c 59 x ONNX Runtime",
    "d float32 host": "onnx2c 11 x, emx 11 x ONNX Runtime",
}
"""Others on the same networks: instructions at -O3 counted in the same way; time on a machine of their own."""
_ROUNDS, _ROUND_SECONDS = 5, 0.3

TIMED = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "{prefix}.h"
{buffers}
static {prefix}_arena arena;
int main(int argc, char **argv)
{{
    {prefix}_context context;
    double best = 1e9, all = 0, limit = argc > 2 ? atof(argv[2]) : 0;
    FILE *file = fopen(argv[1], "rb");
    if (!file{reads}) return 2;
    {prefix}_init(&context, &arena, {prefix}_weights);
    while (all < limit) {{
        struct timespec start, end;
        double seconds;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
        {prefix}_run(&context, {arguments});
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
        seconds = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
        all += seconds;
        if (seconds < best) best = seconds;
    }}
    printf("%.9f\\n", best);
    return 0;
}}
"""


@dataclass(frozen=True, eq=False)
class Library:
    """A network as built, and one input of it."""

    network: str
    precision: str
    built: BuiltFolder
    onnx: Path
    target: AnyTarget
    sample: Sample
    inputs: dict[str, NDArray[Any]]

    def runner(self, on: str) -> Runner:
        """The target's runner; on the host with the flags that time is measured with."""
        options = self.target.options(precision=self.precision)
        if on == "host":
            (here,) = self.target.runners(options)
            return replace(here, flags=HOST_FLAGS)
        return next(each for each in self.target.boards(options) if each.name == on)

    @property
    def artifact(self) -> Path:
        """The folder of the C."""
        return self.built.folder / "artifact"


def build(folder: Path, network: str, precision: str, onnx: Path | None = None) -> Library:
    """By the stages of `nnkit run`, calibrated on seeded noise. onnx: the network; None: the named one.

    Raises SystemExit without the networks.
    """
    if onnx is None:
        shared = shared_folder()
        if shared is None:
            raise SystemExit("set NNKIT_SHARED to the folder that holds nets/")
        onnx = shared / "nets" / f"{NETWORKS[network]}.onnx"
    network_proto = read_onnx(onnx, what="the network", remedy="set NNKIT_SHARED to the folder that holds nets/")
    (port,) = network_proto.graph.input
    shape = [each.dim_value for each in port.type.tensor_type.shape.dim]
    (folder / "inputs").mkdir(parents=True)
    for index in range(4):
        np.save(
            folder / f"inputs/{index}.npy", np.random.default_rng(index).standard_normal(shape).astype(np.float32)
        )
    (folder / "recipe.yaml").write_text(
        f"nnkit: 1\nname: {network}\nmodel:\n  path: '{onnx}'\n  inputs:\n"
        f"    {port.name}: {{calibration: {{images: 'inputs/*.npy'}}}}\n"
        f"targets:\n  ansi_c: {{precision: {precision}}}\nverify: {{images: 'inputs/*.npy', count: 1}}\n"
    )
    recipe = load(folder / "recipe.yaml")
    options = recipe.targets["ansi_c"]
    made = Build(recipe, "ansi_c", load_target("ansi_c"), options, StageCache.disabled(), Progress(quiet=True), False)
    built = open_build(pipeline.run(made, folder / "out").folder)
    sample = Sample("noise", built.kept_inputs()[0])
    return Library(
        network, precision, built, onnx, made.target, sample, dict(quantized_inputs(built.program, sample))
    )


def row(library: Library, on: str) -> Row:
    """What a network takes on a board or on the host."""
    runner = library.runner(on)
    program = library.built.program
    verdict: ArtifactVerdict = compare_artifact(runner, library.artifact, program, [library.inputs])
    cells: dict[str, str | int | float | None] = {
        "network": library.network,
        "precision": library.precision,
        "on": on,
        "instructions": verdict.instructions,
        "macs": sum(macs(op, program) for op in program.ops),
        "arena_bytes": int(described(library.artifact)["arena_bytes"]),
        "l1_bytes": L1_VALUES[library.network] * VALUE_BYTES[library.precision],
        "code_bytes": verdict.measured.get("code_bytes"),
        "mismatches": verdict.mismatches,
    }
    if on == "host":
        cells["seconds"], cells["onnxruntime_seconds"] = seconds(library)
    return cells


def seconds(library: Library) -> tuple[float, float]:
    """The least time of the processor that the C and ONNX Runtime take, by turns."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(library.onnx), options, providers=["CPUExecutionProvider"])
    feeds = {name: values.astype(np.float32) for name, values in library.sample.inputs.items()}
    ours = theirs = float("inf")
    with tempfile.TemporaryDirectory(prefix="nnkit-mcu-") as name:
        program = _timed(library, Path(name))
        for _ in range(_ROUNDS):
            command = [program, Path(name) / "inputs.bin", str(_ROUND_SECONDS)]
            ours = min(ours, float(subprocess.run(command, capture_output=True, check=True).stdout))
            spent = 0.0
            while spent < _ROUND_SECONDS:
                start = time.thread_time()
                session.run(None, feeds)
                last = time.thread_time() - start
                theirs, spent = min(theirs, last), spent + last
    return ours, theirs


def _timed(library: Library, folder: Path) -> Path:
    """A program that runs the library for so many seconds and prints the least time of a call."""
    record = described(library.artifact)
    prefix, ports = record["name"], record["inputs"] + record["outputs"]
    buffers = [f"static {p['type']} {p['pointer']}[{p['values']}];" for p in ports]
    reads = [f" || fread({p['pointer']}, sizeof {p['pointer']}, 1, file) != 1" for p in record["inputs"]]
    (folder / "inputs.bin").write_bytes(input_bytes(record, library.built.program, [library.inputs]))
    text = TIMED.format(
        prefix=prefix,
        buffers="\n".join(buffers),
        reads="".join(reads),
        arguments=", ".join(p["pointer"] for p in ports),
    )
    (folder / "timed.c").write_text(text)
    sources = [str(library.artifact / file) for file in (*record["sources"], record["weights"])]
    command = ["cc", *HOST_FLAGS, f"-I{library.artifact}", "timed.c", *sources, "-o", "timed", "-lm"]
    subprocess.run([*command, f"-Wa,-I{library.artifact}"], cwd=folder, check=True)
    return folder / "timed"


def printed(cells: Row) -> Row:
    """For people: what the numbers come to, and the peers'."""
    key = " ".join(str(cells[name]) for name in ("network", "precision", "on"))
    shown = dict(cells)
    shown["per MAC"] = ratio(_number(cells["instructions"]), _number(cells["macs"]))
    shown["arena/L1"] = ratio(_number(cells["arena_bytes"]), _number(cells["l1_bytes"]))
    for name in ("seconds", "onnxruntime_seconds"):
        value = shown.pop(name, None)
        shown[name.replace("seconds", "ms")] = None if value is None else round(1e3 * float(value), 3)
    shown["time/ONNX Runtime"] = ratio(_number(cells.get("seconds")), _number(cells.get("onnxruntime_seconds")))
    return shown | {"peers": PEERS.get(key, "")}


def _number(cell: str | int | float | None) -> float | None:
    return None if cell is None else float(cell)


def main() -> None:
    boards = ",".join([*BOARDS, "host"])
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mcu")
    parser.add_argument("--networks", default=",".join(NETWORKS), help="of a, b, c, d")
    parser.add_argument("--precisions", default="float32,int8", help="as the target has them, separated by commas")
    parser.add_argument("--on", default=boards, help=f"of {boards}")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="nnkit-mcu-") as name:
        for network in arguments.networks.split(","):
            for precision in arguments.precisions.split(","):
                library = build(Path(name) / f"{network}-{precision}", network, precision)
                rows += [row(library, on) for on in arguments.on.split(",")]
    show(rows if arguments.json else [printed(each) for each in rows], as_json=arguments.json)


if __name__ == "__main__":
    main()

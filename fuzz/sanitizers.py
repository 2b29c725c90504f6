"""Emitted C under the sanitizers, with extreme inputs: `python -m fuzz.sanitizers [--network NAME...] [--json]`.

Small networks are built for the targets whose C runs on this machine, and each artifact is compiled with
AddressSanitizer and UndefinedBehaviorSanitizer (gcc and clang), MemorySanitizer and ThreadSanitizer (clang), and run
on zeros, on the ends of the inputs' range and on random values, where the outputs are compared with the simulator's.
The cores of GAP8's cluster are threads under the last, and their tiles are of 4 KiB.
The C of CPU segments in float also gets NaN, infinities and numbers that no integer holds, where nothing is compared.
A compiler that is missing is said, and its rows are left out.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.interruption import run_command

Inputs = Mapping[str, NDArray[Any]]
_UNDEFINED = "-fsanitize=address,undefined,float-cast-overflow"
SANITIZERS = {
    "gcc address, undefined": ("gcc", ("-g", "-O1", _UNDEFINED, "-fno-sanitize-recover=all")),
    "clang address, undefined": ("clang", ("-g", "-O1", _UNDEFINED, "-fno-sanitize-recover=all")),
    "clang memory": ("clang", ("-g", "-O1", "-fsanitize=memory", "-fno-sanitize-recover=all")),
    "clang thread": ("clang", ("-g", "-O1", "-fsanitize=thread", "-pthread", "-DNNKIT_HOST_THREADS")),
}
TARGETS = {
    "gap8": ("gap8", "{}"),
    "gap8 affine": ("gap8", "{scheme: affine}"),
    "gap8 cluster": ("gap8", "{cluster: {l1: 4KiB}}"),
    "gap8 affine cluster": ("gap8", "{scheme: affine, cluster: {l1: 4KiB}}"),
    "ansi_c": ("ansi_c", "{}"),
    "ansi_c int8": ("ansi_c", "{precision: int8}"),
}
"""Targets with their options, by what rows call them."""
_EXTREMES = (np.nan, np.inf, -np.inf, 3.4e38, -3.4e38, 1e-45, -2147483648.0, 4294967296.0)


def main(arguments: list[str] | None = None) -> int:
    """Print a row for each sanitizer; 1 where something was found."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.sanitizers", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--network", nargs="*", metavar="NAME", help="only these networks")
    parser.add_argument("--sanitizer", nargs="*", choices=list(SANITIZERS), default=list(SANITIZERS), metavar="NAME")
    parser.add_argument("--json", action="store_true", help="rows as JSON")
    options = parser.parse_args(arguments)
    rows = []
    with tempfile.TemporaryDirectory(prefix="nnkit_sanitizers_") as name:
        artifacts = list(_artifacts(Path(name), options.network))
        for sanitizer in options.sanitizer:
            compiler, flags = SANITIZERS[sanitizer]
            missing = _missing(compiler, flags, Path(name))
            if missing:
                print(f"{sanitizer}: not run: {missing}", file=sys.stderr)
                continue
            rows.append(_row(sanitizer, compiler, flags, artifacts))
    if options.json:
        print(json.dumps(rows))
    else:
        for row in rows:
            print("  ".join(f"{key} {value}" for key, value in row.items()))
    return 1 if any(row["findings"] for row in rows) else 0


def _missing(compiler: str, flags: tuple[str, ...], folder: Path) -> str:
    """Why this compiler cannot make a program with these flags; empty where it can."""
    if shutil.which(compiler) is None:
        return f"no {compiler}"
    (folder / "empty.c").write_text("int main(void) { return 0; }\n")
    command = [compiler, *flags, str(folder / "empty.c"), "-o", str(folder / "empty")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.splitlines()[0]


def _artifacts(folder: Path, only: Sequence[str] | None = None) -> Iterator[tuple[str, Path, Any]]:
    """(target, artifact, program) of every network, or of some, that the target can run."""
    from fuzz.builds import RECIPE, built
    from nnkit.errors import NnkitError

    for number, ((network, data), (name, (target, options))) in enumerate(
        itertools.product(_networks(folder), TARGETS.items())
    ):
        if only and network not in only:
            continue
        place = folder / str(number)
        place.mkdir()
        try:
            build = built(place, data, RECIPE.replace("onnx_qdq: {}", f"{target}: {options}"), target)
        except NnkitError as error:
            print(f"network {network} for {name}: left out: {error.reason}", file=sys.stderr)
            continue
        yield name, build.folder / "artifact", build.program


def _networks(folder: Path) -> list[tuple[str, bytes]]:
    from fuzz.networks import seeds
    from fuzz.operator_networks import operator_networks

    return [*((str(number), data) for number, data in enumerate(seeds(folder))), *operator_networks().items()]


def _row(
    sanitizer: str, compiler: str, flags: tuple[str, ...], artifacts: list[tuple[str, Path, Any]]
) -> dict[str, Any]:
    from nnkit.errors import ToolError
    from nnkit.simulate import simulate

    began, runs, findings = time.perf_counter(), 0, []
    for target, artifact, program in artifacts:
        inputs = list(_inputs(program))
        try:
            results = _runner(target, compiler, flags).run(artifact, program, inputs, trace=False)
        except ToolError as error:
            findings.append(f"{sanitizer}, {target}: {error}")
            continue
        runs += len(results)
        for given, result in zip(inputs, results, strict=True):
            expected = simulate(program, given)
            for name, values in result.outputs.items():
                apart = np.abs(values.astype(np.float64) - expected[name].reshape(values.shape).astype(np.float64))
                if apart.max(initial=0.0) > (1e-3 if values.dtype.kind == "f" else 0):
                    findings.append(f"{sanitizer}, {target}: {name} differs from the simulator by {apart.max()}")
        if all(program.tensors[name].format.dtype.kind == "f" for name in program.inputs):
            extremes = [{n: np.full_like(v, number) for n, v in inputs[0].items()} for number in _EXTREMES]
            try:
                runs += len(_runner(target, compiler, flags).run(artifact, program, extremes, trace=False))
            except ToolError as error:
                findings.append(f"{sanitizer}, {target}, extremes: {error}")
    for finding in findings:
        print(finding, file=sys.stderr)
    seconds = round(time.perf_counter() - began, 1)
    return {
        "sanitizer": sanitizer,
        "artifacts": len(artifacts),
        "runs": runs,
        "findings": len(findings),
        "seconds": seconds,
    }


def _runner(name: str, compiler: str, flags: tuple[str, ...]) -> Any:
    from nnkit_ansi_c.integer_runner import IntegerHostRunner
    from nnkit_ansi_c.runner import HostRunner as AnsiCRunner
    from nnkit_gap8.runners import HostRunner as Gap8Runner

    kinds = {"ansi_c": AnsiCRunner, "ansi_c int8": IntegerHostRunner}
    return kinds.get(name, Gap8Runner)(compiler=compiler, flags=flags)


def _inputs(program: Any) -> Iterator[Inputs]:
    """Zeros, both ends of the range, and random values."""
    tensors = {name: program.tensors[name] for name in program.inputs}
    draw = np.random.default_rng(0)

    def filled(choose: Any) -> Inputs:
        return {name: np.asarray(choose(t), t.format.dtype).reshape(t.shape) for name, t in tensors.items()}

    def low(tensor: Any) -> float:
        return -1.0 if tensor.format.dtype.kind == "f" else tensor.low

    def high(tensor: Any) -> float:
        return 1.0 if tensor.format.dtype.kind == "f" else tensor.high

    yield filled(lambda t: np.zeros(t.shape))
    yield filled(lambda t: np.full(t.shape, low(t)))
    yield filled(lambda t: np.full(t.shape, high(t)))
    for _ in range(3):
        yield filled(lambda t: draw.choice([low(t), high(t), 0, 1], t.shape))


if __name__ == "__main__":
    raise SystemExit(run_command(main))

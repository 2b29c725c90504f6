"""Artifacts on disk and the compilers to try them with."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nnkit.c.fixed.machine import CoreMachine
from nnkit.memory.plan import MemoryPlan
from nnkit.program import Program
from nnkit_gap8.emit import emit_artifact
from tests.c.fixed.programs import random_values
from tests.gap8.plans import L1_BYTES, naive_plan

STRICT = ("-Wall", "-Wextra", "-Wconversion", "-Werror", "-pedantic")
DIALECTS = {
    "gcc-c90": ("gcc", "-std=c90"),
    "gcc-c99": ("gcc", "-std=c99"),
    "clang-c90": ("clang", "-std=c90"),
    "clang-c99": ("clang", "-std=c99"),
    "g++-c++11": ("g++", "-x", "c++", "-std=c++11"),
    "clang++-c++17": ("clang++", "-x", "c++", "-std=c++17"),
}


def write_artifact(
    program: Program,
    folder: Path,
    plan: MemoryPlan | None = None,
    *,
    cores: int = 8,
    name: str = "net",
    as_table: bool = False,
) -> Path:
    """Emit `program` into `folder`; without a plan under the one that reuses nothing."""
    planned, machine = plan or naive_plan(program, cores), CoreMachine(cores, L1_BYTES)
    files = emit_artifact(program, planned, machine, name, as_table=as_table)
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def sources(folder: Path) -> list[Path]:
    """The network's own C files."""
    return [folder / name for name in json.loads((folder / "network.json").read_text())["sources"]]


def compile_only(
    compiler: Iterable[str],
    files: Iterable[Path],
    includes: Iterable[Path],
    work: Path,
    flags: Iterable[str] = STRICT,
) -> str:
    """Compile each file; returns what the compiler printed (empty: clean).

    The warnings asked for here need no code of clang; some of gcc need its optimiser.
    """
    command = [*compiler, *flags, *(f"-I{path}" for path in includes)]
    if command[0].startswith("clang"):
        command.append("-fsyntax-only")
    log = ""
    for file in files:
        done = subprocess.run(
            [*command, "-c", str(file), "-o", str(work / "object.o")], capture_output=True, text=True, check=False
        )
        log += done.stdout + done.stderr
    return log


def has(tool: str) -> bool:
    """Whether a program is on PATH."""
    return shutil.which(tool) is not None


def random_inputs(program: Program, seed: int, extreme: bool = False) -> Mapping[str, NDArray[np.int64]]:
    """One set of inputs."""
    rng = np.random.default_rng(seed)
    return {name: random_values(rng, program.tensors[name], extreme) for name in program.inputs}

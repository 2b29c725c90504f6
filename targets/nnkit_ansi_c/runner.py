"""Compiles the library as strict C90 with the compiler of this machine and compares every layer that it computes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from nnkit.c.affine.call import logical, physical
from nnkit.c.host_compiler import needed_compiler, why_no_compiler
from nnkit.errors import ToolError
from nnkit.external_tool import run_tool
from nnkit.owned_folder import temporary_folder
from nnkit.program import Float, Program
from nnkit.reading import read_json_object
from nnkit.target import Contract, RunResult
from nnkit_ansi_c.ops import FloatLayer

STRICT = ("-std=c90", "-pedantic-errors", "-Wall", "-Wextra", "-Wconversion", "-Werror")
TIMEOUT_S = 600.0
REMEDY = "this is a fault of nnkit or of the compiler: please report it with the artifact"


@dataclass(frozen=True)
class LibraryRunner(ABC):
    """Compiles a library with a program around it and runs it here. compiler: None takes `CC`, or cc, gcc or clang.

    needed_flags: what the library's arithmetic needs, whatever `flags` are.
    """

    needed_flags: ClassVar[tuple[str, ...]] = ()
    compiler: str | None = None
    flags: tuple[str, ...] = ()
    name: str = "host"
    contract: Contract = "exact"
    emulated: bool = False
    layer_by_layer: Literal[True] = True

    @abstractmethod
    def main_source(self, record: Mapping[str, Any], artifact: Path, folder: Path) -> Path:
        """The C file with `main`: of the artifact, or written into `folder`. record: the artifact's description."""

    @abstractmethod
    def bound(self, program: Program, tensor: str) -> float:
        """See `Runner`."""

    def missing(self) -> str | None:
        """None where there is a C compiler."""
        return why_no_compiler(self.compiler)

    def run(
        self, artifact: Path, program: Program, inputs: Sequence[Mapping[str, NDArray[Any]]], *, trace: bool
    ) -> list[RunResult]:
        """One result per set of inputs. Raises ToolError where the compiler or the library fails."""
        record = described(artifact)
        with temporary_folder("nnkit-ansi-c-") as folder:
            binary = self.compile(artifact, folder, trace=trace)
            (folder / "inputs.bin").write_bytes(input_bytes(record, program, inputs))
            command = [str(binary), "inputs.bin", "outputs.bin", *(["layers.bin"] if trace else [])]
            run_tool(command, timeout_s=TIMEOUT_S, folder=folder, name="the library", remedy=REMEDY).checked(
                "the library", remedy=REMEDY
            )
            outputs = split_values(folder / "outputs.bin", record["outputs"], program, len(inputs))
            layers = split_values(folder / "layers.bin", record["layers"], program, len(inputs)) if trace else []
        tensors = layers or [{} for _ in inputs]
        return [RunResult(results, traced) for results, traced in zip(outputs, tensors, strict=True)]

    def compile(self, artifact: Path, folder: Path, *, trace: bool = False) -> Path:
        """The library and its program in `folder`. Raises ToolError."""
        compiler = needed_compiler(self.compiler)
        record = described(artifact)
        binary, artifact = folder.resolve() / "network", artifact.resolve()
        sources = [str(artifact / file) for file in (*record["sources"], record["weights"])]
        sources.append(str(self.main_source(record, artifact, folder).resolve()))
        traced = [f"-D{record['name'].upper()}_TRACE=trace_layer"] if trace else []
        command = [
            compiler,
            *STRICT,
            *self.needed_flags,
            *self.flags,
            *traced,
            f"-I{artifact}",
            "-o",
            str(binary),
            *sources,
            "-lm",
        ]
        run = run_tool(command, timeout_s=TIMEOUT_S, folder=folder, name="the C compiler", remedy=REMEDY)
        run.checked("the C compiler", remedy=REMEDY)
        return binary


@dataclass(frozen=True)
class HostRunner(LibraryRunner):
    """Runs a float32 library by the example of the artifact."""

    # A product that is not rounded before it is added would be another arithmetic.
    needed_flags: ClassVar[tuple[str, ...]] = ("-O2", "-ffp-contract=off")
    contract: Contract = "bounded"

    def main_source(self, record: Mapping[str, Any], artifact: Path, folder: Path) -> Path:
        """The artifact's example."""
        return artifact / "example.c"

    def bound(self, program: Program, tensor: str) -> float:
        """See `layer_bound`."""
        return layer_bound(program, tensor)


def described(artifact: Path) -> dict[str, Any]:
    """The artifact's `<name>.json`. Raises ToolError where there is none, UserFileError for a damaged one."""
    files = sorted(path for path in artifact.glob("*.json") if path.name != "library.json")
    if len(files) != 1:
        raise ToolError("the artifact has no description", where=str(artifact), remedy="build it again")
    return read_json_object(files[0], what="the artifact's description", remedy="build it again")


def layer_bound(program: Program, tensor: str) -> float:
    """The bound of the layer that gives the tensor, see `nnkit_ansi_c.bounds`; 0 for inputs, which are equal."""
    op = program.producer(tensor)
    return op.bound if isinstance(op, FloatLayer) else 0.0


def input_bytes(record: Mapping[str, Any], program: Program, inputs: Sequence[Mapping[str, NDArray[Any]]]) -> bytes:
    """All inputs of all runs as the programs read them."""
    return b"".join(port_bytes(program, p["name"], given[p["name"]]) for given in inputs for p in record["inputs"])


def port_bytes(program: Program, name: str, values: NDArray[Any]) -> bytes:
    """A tensor's values as they lie in the library's arrays."""
    form = program.tensors[name].format
    lying = values if isinstance(form, Float) else physical(values)
    return np.ascontiguousarray(lying, form.dtype).tobytes()


def split_values(
    file: Path, entries: Sequence[Mapping[str, Any]], program: Program, runs: int
) -> list[dict[str, NDArray[Any]]]:
    """Values by name for each run, in the shapes of the program. Raises ToolError for too few or too many."""
    data = file.read_bytes()
    size = sum(program.tensors[entry["name"]].size_bytes for entry in entries)
    if len(data) != runs * size:
        raise ToolError(f"{len(data)} bytes were written, {runs * size} expected", where=file.name, remedy=REMEDY)
    return [values_of(data[run * size : (run + 1) * size], entries, program) for run in range(runs)]


def values_of(data: bytes, entries: Sequence[Mapping[str, Any]], program: Program) -> dict[str, NDArray[Any]]:
    """Values by name, one entry behind the other, in the shapes of the program. Raises ToolError for another size."""
    tensors = [program.tensors[entry["name"]] for entry in entries]
    if len(data) != sum(tensor.size_bytes for tensor in tensors):
        raise ToolError(f"{len(data)} bytes came for {tensors[0].name!r}", remedy=REMEDY)
    values: dict[str, NDArray[Any]] = {}
    start = 0
    for tensor in tensors:
        part = np.frombuffer(data, tensor.format.dtype, tensor.elements, start)
        is_float = isinstance(tensor.format, Float)
        values[tensor.name] = part.reshape(tensor.shape) if is_float else logical(part, tensor.shape)
        start += tensor.size_bytes
    return values

"""Runners: compile the artifact and run it, on this host and on an emulated rv32imc with GAP8's memories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.boards.objects import compile_object
from nnkit.boards.tools import QEMU_RV32, RV32_COMPILER, RV32_SIZE, missing_tools, require, run_in
from nnkit.c.affine.call import logical, physical
from nnkit.c.host_compiler import needed_compiler, why_no_compiler
from nnkit.errors import DoesNotFitError, InternalError, ToolError
from nnkit.owned_folder import temporary_folder
from nnkit.program import Affine, Program
from nnkit.reading import read_json_object
from nnkit.target import Contract, RunResult
from nnkit_gap8.call_stack import worst_stack_bytes
from nnkit_gap8.compile_flags import OPTIMISATION, RV32_FLAGS

_HOST_TIMEOUT_S = 600.0
_COMPILE_TIMEOUT_S = 300.0
_QEMU_TIMEOUT_S = 600.0

_ARGUMENT_REGISTERS = 8  # of the calling convention


@dataclass(frozen=True)
class HostRunner:
    """Compiles with the host's C compiler (`CC`, or cc, gcc, clang) and runs with all parts, one after another.

    flags: added to the compiler's command line. parts: None takes the artifact's number of cores.
    """

    compiler: str | None = None
    flags: tuple[str, ...] = ("-O1",)
    parts: int | None = None
    name: str = "host"
    emulated: bool = False
    contract: Contract = "exact"

    def missing(self) -> str | None:
        """None when a C compiler is there, otherwise what to install."""
        return why_no_compiler(self.compiler)

    def bound(self, program: Program, tensor: str) -> float:
        """Nothing may differ."""
        return 0.0

    def run(
        self, artifact: Path, program: Program, inputs: Sequence[Mapping[str, NDArray[Any]]], *, trace: bool
    ) -> list[RunResult]:
        """One result per set of inputs. Raises ToolError when the compiler or the program fails."""
        with temporary_folder("nnkit-host-") as folder:
            binary = self.compile(artifact, folder, trace=trace)
            parts = self.parts or int(describe(artifact)["cores"])
            return execute_on_host(binary, artifact, program, inputs, parts=parts, trace=trace)

    def compile(self, artifact: Path, folder: Path, *, trace: bool) -> Path:
        """Compile the artifact's host side in `folder`; returns the executable. Raises ToolError."""
        compiler = needed_compiler(self.compiler)
        artifact = artifact.resolve()
        description = describe(artifact)
        sources = [artifact / source for source in description["sources"]]
        sources += [artifact / "host" / "nnkit_port_host.c", artifact / "host" / "main.c"]
        binary = folder / "network"
        command = [compiler, *self.flags, *(["-DNNKIT_PORT_PARALLEL"] if description.get("cluster") else [])]
        main = (artifact / f"{description['stem']}.c", artifact / "host" / "main.c")
        objects: list[Path] = []
        # The plain build is made at the same time and has most sources in common: they meet in the middle.
        for number, source in enumerate(reversed(sources) if trace else sources):
            objects.append(folder / f"{number}_{source.stem}.o")
            traced = ["-DNNKIT_TRACE"] if trace and source in main else []
            compile_object([*command, *traced], (artifact / "host", artifact), source, objects[-1])
        run_in(folder, [*command, "-o", str(binary), *map(str, objects)], _COMPILE_TIMEOUT_S)
        return binary


def execute_on_host(
    binary: Path,
    artifact: Path,
    program: Program,
    inputs: Sequence[Mapping[str, NDArray[np.int64]]],
    *,
    parts: int,
    trace: bool,
) -> list[RunResult]:
    """Run what `HostRunner.compile` made (with the same `trace`), every kernel in `parts` parts."""
    folder = binary.parent
    (folder / "inputs.bin").write_bytes(input_bytes(program, inputs))
    arguments = [str(artifact.resolve() / "weights.bin"), "inputs.bin", "outputs.bin", str(parts)]
    arguments += ["trace.bin"] if trace else []
    run_in(folder, [str(binary), *arguments], _HOST_TIMEOUT_S)
    outputs = split_outputs(program, (folder / "outputs.bin").read_bytes(), len(inputs))
    traces = _split_trace(program, folder / "trace.bin", len(inputs)) if trace else [{}] * len(inputs)
    return [RunResult(out, tensors) for out, tensors in zip(outputs, traces, strict=True)]


@dataclass(frozen=True)
class Rv32Runner:
    """Compiles for rv32imc and runs under QEMU, where instruction counts are exact.

    L2 has the target's capacity: the linker refuses more, a guard traps accesses behind it. `measured` holds
    l2_painted_bytes (the extent of L2 that a run touched), stack_used_bytes (touched), stack_worst_bytes (analysed
    from the call graph) and code_bytes (instructions and constants of the network, which are not in L2 here).
    """

    parts: int = 1
    optimisation: tuple[str, ...] = OPTIMISATION
    name: str = "rv32"
    emulated: bool = True
    contract: Contract = "exact"

    def missing(self) -> str | None:
        """None when cross compiler and emulator are there, otherwise what to install."""
        return missing_tools((RV32_COMPILER, RV32_SIZE, QEMU_RV32))

    def bound(self, program: Program, tensor: str) -> float:
        """Nothing may differ."""
        return 0.0

    def run(
        self, artifact: Path, program: Program, inputs: Sequence[Mapping[str, NDArray[Any]]], *, trace: bool
    ) -> list[RunResult]:
        """One result per set of inputs; instructions by layer are those of the first.

        Raises ToolError when a tool fails, the program does not fit, or it touches guarded memory; DoesNotFitError
        when its code is larger than what the recipe keeps for it.
        """
        if not inputs:
            return []
        artifact = artifact.resolve()
        with temporary_folder("nnkit-rv32-") as folder:
            build = _Rv32Build(artifact, folder, describe(artifact), self.parts, self.optimisation)
            stack_bytes = build.stack_bytes()
            code_bytes = build.code_bytes()
            _check_code(code_bytes, build.description)
            plain = build.run("plain", program, inputs)
            traced = build.run("traced", program, inputs if trace else inputs[:1])
        results = []
        for index, outputs in enumerate(plain.outputs):
            values = plain.values
            measured = {
                "l2_painted_bytes": values["l2"][index],
                "stack_used_bytes": values["stack"][index],
                "stack_worst_bytes": stack_bytes,
                "code_bytes": code_bytes,
            }
            tensors = traced.tensors[index] if trace else {}
            by_layer = traced.instructions_by_layer if index == 0 else {}
            results.append(RunResult(outputs, tensors, values["instructions"][index], by_layer, measured))
        return results


def compiled_code_bytes(artifact: Path) -> int:
    """Instructions and constants of an artifact's objects for rv32imc. Raises ToolError."""
    with temporary_folder("nnkit-code-") as folder:
        return _Rv32Build(artifact.resolve(), folder, describe(artifact), 1, OPTIMISATION).code_bytes()


def _check_code(code_bytes: int, description: Mapping[str, Any]) -> None:
    kept = description["memory"].get("code_bytes")
    if kept is not None and code_bytes > kept:
        table = "" if description.get("steps") == "table" else "; or `steps: table`, which takes less code"
        raise DoesNotFitError(
            f"instructions and constants take {code_bytes:,} bytes, {code_bytes - kept:,} more than `memory.code`",
            where=description["name"],
            remedy=f"set `memory: {{code: {code_bytes}}}`, with as much more of `l2` or a smaller peak{table}",
        )


@dataclass(frozen=True)
class _Rv32Run:
    """What a QEMU run left. values: measured numbers by name, one per sample."""

    outputs: list[dict[str, NDArray[Any]]]
    tensors: list[dict[str, NDArray[Any]]]
    values: dict[str, list[int]]
    instructions_by_layer: dict[str, int]


@dataclass
class _Rv32Build:
    """Object files of one artifact in a temporary folder; each source is compiled once."""

    artifact: Path
    folder: Path
    description: Mapping[str, Any]
    parts: int
    optimisation: tuple[str, ...]
    _objects: dict[tuple[str, bool], Path] = field(default_factory=dict)

    def object(self, source: str, trace: bool = False) -> Path:
        """The compiled object of one source, given by its path in the artifact."""
        key = (source, trace)
        if key not in self._objects:
            place = self.folder / f"{source.replace('/', '_')}{'.trace' if trace else ''}.o"
            flags = [*RV32_FLAGS, *self.optimisation, f"-DNNKIT_PARTS={self.parts}", "-fcallgraph-info=su"]
            flags += self.description.get("flags", [])
            flags += ["-DNNKIT_TRACE"] if trace else []
            includes = (self.artifact / "rv32", self.artifact)
            compile_object([require(RV32_COMPILER), *flags], includes, self.artifact / source, place)
            self._objects[key] = place
        return self._objects[key]

    def program_objects(self, trace: bool = False) -> list[Path]:
        """Objects of the network itself, and of what it calls."""
        main = f"{self.description['stem']}.c"
        sources = [*self.description["sources"], "rv32/nnkit_port_rv32.c", "rv32/rv32_runtime.c"]
        sources.append("rv32/nnkit_semihosting.c")
        sources += ["rv32/nnkit_dma_rv32.c"] if self.description.get("cluster") else []
        return [self.object(source, trace and source == main) for source in sources]

    def stack_bytes(self) -> int:
        """Worst-case stack; it must fit what the plan reserves."""
        graphs = [path.with_suffix(".ci").read_text() for path in self.program_objects()]
        arguments = 1 + len(self.description["inputs"]) + len(self.description["outputs"])
        passed_on_stack = -(-max(arguments - _ARGUMENT_REGISTERS, 0) // 4) * 16  # words, in units of 16 bytes
        worst = passed_on_stack + worst_stack_bytes(graphs, f"{self.description['stem']}_run")
        reserved = int(self.description["memory"]["stack_bytes"])
        if worst > reserved:
            raise InternalError(f"the network needs {worst} bytes of stack, {reserved} are reserved", where="rv32")
        return worst

    def code_bytes(self) -> int:
        """Instructions and constants of the network's own objects."""
        objects = [self.object(source) for source in self.description["sources"]]
        text = run_in(self.folder, [require(RV32_SIZE), "-B", *map(str, objects)], _COMPILE_TIMEOUT_S)
        return sum(int(line.split()[0]) for line in text.splitlines()[1:])

    def run(self, variant: str, program: Program, inputs: Sequence[Mapping[str, NDArray[np.int64]]]) -> _Rv32Run:
        """Link, run under QEMU and read the results. variant: "plain" or "traced"."""
        trace = variant == "traced"
        objects = [*self.program_objects(trace), self.object("rv32/main.c", trace), self.object("rv32/crt0.S")]
        elf = self.folder / f"{variant}.elf"
        script = self.artifact / "rv32" / "link.ld"
        link = [require(RV32_COMPILER), *RV32_FLAGS, "-nostdlib", "-nostartfiles", "-T", str(script), "-o", str(elf)]
        run_in(self.folder, [*link, *map(str, objects), "-lgcc"], _COMPILE_TIMEOUT_S)
        work = self.folder / variant
        work.mkdir()
        (work / "weights.bin").symlink_to(self.artifact / "weights.bin")
        (work / "inputs.bin").write_bytes(input_bytes(program, inputs))
        run_in(work, [*qemu_command(), "-kernel", str(elf)], _QEMU_TIMEOUT_S * len(inputs))
        values, by_op = _read_measures((work / "measures.txt").read_text(), len(program.ops))
        by_layer = {op.name: by_op[index] // len(inputs) for index, op in enumerate(program.ops)} if trace else {}
        tensors = _split_trace(program, work / "trace.bin", len(inputs)) if trace else []
        outputs = split_outputs(program, (work / "outputs.bin").read_bytes(), len(inputs))
        return _Rv32Run(outputs, tensors, values, by_layer)


def qemu_command() -> list[str]:
    """QEMU with exact instruction counts; `-kernel ELF` is to follow."""
    return [
        require(QEMU_RV32),
        *("-machine", "virt", "-cpu", "rv32", "-m", "256M", "-smp", "1", "-bios", "none"),
        *("-display", "none", "-monitor", "none", "-serial", "none", "-chardev", "stdio,id=console"),
        *("-semihosting-config", "enable=on,target=native,chardev=console", "-icount", "shift=0"),
    ]


def describe(artifact: Path) -> Mapping[str, Any]:
    """The artifact's network.json."""
    return read_json_object(artifact / "network.json", what="the artifact's description", remedy="build it again")


def input_bytes(program: Program, inputs: Sequence[Mapping[str, NDArray[np.int64]]]) -> bytes:
    """inputs.bin: samples one after another, of each its inputs as stored integers."""
    return b"".join(_stored(program, name, sample[name]) for sample in inputs for name in program.inputs)


def _stored(program: Program, name: str, values: NDArray[Any]) -> bytes:
    """Affine values lie pixel by pixel, all others channel by channel."""
    form = program.tensors[name].format
    lying = physical(values) if isinstance(form, Affine) else values
    return np.ascontiguousarray(lying, dtype=form.dtype.newbyteorder("<")).tobytes()


def _tensor(program: Program, name: str, data: bytes) -> NDArray[Any]:
    tensor = program.tensors[name]
    stored = np.frombuffer(data, dtype=tensor.format.dtype.newbyteorder("<")).astype(tensor.format.dtype)
    return logical(stored, tensor.shape) if isinstance(tensor.format, Affine) else stored.reshape(tensor.shape)


def split_outputs(program: Program, data: bytes, samples: int) -> list[dict[str, NDArray[Any]]]:
    """outputs.bin as every sample's outputs by name. Raises ToolError where its size is another one."""
    sizes = [program.tensors[name].size_bytes for name in program.outputs]
    if len(data) != samples * sum(sizes):
        raise ToolError(f"{len(data)} bytes of output, {samples * sum(sizes)} expected", where="outputs.bin")
    results, offset = [], 0
    for _ in range(samples):
        sample = {}
        for name, size in zip(program.outputs, sizes, strict=True):
            sample[name] = _tensor(program, name, data[offset : offset + size])
            offset += size
        results.append(sample)
    return results


def _split_trace(program: Program, path: Path, samples: int) -> list[dict[str, NDArray[Any]]]:
    """Traced tensors by name, per sample: records of (op, bytes) as two 32-bit integers, then the bytes."""
    data = path.read_bytes()
    results: list[dict[str, NDArray[Any]]] = [{} for _ in range(samples)]
    offset = 0
    for sample in results:
        while offset < len(data) and len(sample) < len(program.ops):
            op, size = (int(value) for value in np.frombuffer(data, dtype="<i4", count=2, offset=offset))
            name = program.ops[op].output
            sample[name] = _tensor(program, name, data[offset + 8 : offset + 8 + size])
            offset += 8 + size
    return results


def _read_measures(text: str, ops: int) -> tuple[dict[str, list[int]], list[int]]:
    """measures.txt: per-sample values by name, and instructions summed by op."""
    values: dict[str, list[int]] = {"instructions": [], "l2": [], "stack": []}
    by_op = [0] * ops
    for line in text.splitlines():
        name, first, second = line.split()
        if name == "op":
            by_op[int(first)] += int(second)
        else:
            values[name].append(int(first))
    return values, by_op

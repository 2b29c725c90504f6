"""From a segment's graph to what its C files hold: calls in order, buffers with lifetimes, constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nnkit.cpu_segments.arena import Arena, Buffer, plan_arena
from nnkit.cpu_segments.calls import (
    Argument,
    Call,
    Known,
    Lowered,
    Read,
    RefusedError,
    Scratch,
    Struct,
    Table,
    View,
    Write,
    copy,
    number,
)
from nnkit.cpu_segments.graph import Layer, SegmentGraph, Shape
from nnkit.cpu_segments.lowering.catalogue import lower
from nnkit.errors import ModelError

_PER_LINE = 8


@dataclass(frozen=True)
class Constant:
    """`static const <type> <name>[<count>] = <text>`; count is 0 for a structure."""

    type: str
    name: str
    count: int
    text: str


@dataclass(frozen=True)
class Step:
    """A node's calls as C statements."""

    layer: str
    op_type: str
    statements: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Assembly:
    """All that the templates need. kernels: stems of the C files that are called."""

    steps: tuple[Step, ...]
    constants: tuple[Constant, ...]
    kernels: tuple[str, ...]
    arena: Arena
    weight_bytes: int


@dataclass(eq=False)
class _Names:
    """Constants by content, numbered in the order in which they are needed."""

    found: dict[tuple[str, bytes], Constant] = field(default_factory=dict)
    table_bytes: int = 0

    def table(self, array: NDArray[np.float32] | NDArray[np.int32]) -> str:
        kind = "float" if array.dtype == np.float32 else "int"
        key = (kind, array.tobytes())
        if key not in self.found:
            values = array.reshape(-1)
            words = [number(float(v)) for v in values] if kind == "float" else [str(int(v)) for v in values]
            lines = [", ".join(words[i : i + _PER_LINE]) for i in range(0, len(words), _PER_LINE)]
            text = "{" + ",\n    ".join(lines) + "}"
            prefix = "weights" if kind == "float" else "table"
            self.found[key] = Constant(kind, f"{prefix}_{len(self.found)}", values.size, text)
            self.table_bytes += array.nbytes
        return self.found[key].name

    def struct(self, struct: Struct) -> str:
        key = (struct.type, struct.text.encode())
        if key not in self.found:
            name = f"{struct.type.removeprefix('nnkit_')}_{len(self.found)}"
            self.found[key] = Constant(struct.type, name, 0, struct.text)
        return f"&{self.found[key].name}"


def assemble(graph: SegmentGraph, sources: Mapping[str, str], targets: Mapping[str, str]) -> Assembly:
    """Lower every node, plan the memory, and write the calls.

    sources, targets: C names of the segment's inputs and of its outputs, by value.

    Raises:
        ModelError: operators that have no C code, all of them with their reasons.
    """
    lowered = _lower_all(graph)
    known: dict[str, NDArray[np.float32]] = {
        name: np.ascontiguousarray(array, np.float32)
        for name, array in graph.constants.items()
        if array.dtype == np.float32
    }
    roots: dict[str, str] = {}
    work: list[tuple[Layer | None, list[Call]]] = []
    for layer, result in lowered:
        if isinstance(result, View):
            roots[layer.output] = roots.get(result.source, result.source)
        elif isinstance(result, Known):
            known[layer.output] = result.array
        else:
            work.append((layer, result))
    # Outputs that no call writes: views of something, known at compile time, or inputs.
    unwritten = [name for name in graph.outputs if name in roots or name in known or name in sources]
    work += [(None, [_copied(name, graph.shapes[name])]) for name in unwritten]
    pointers = {**targets, **sources}
    fixed = set(pointers) - set(roots) - set(known)
    buffers = _buffers(graph, work, roots, known, fixed)
    arena = plan_arena(buffers)
    names = _Names()

    def place(value: str, offset: int, *, write: bool) -> str:
        root = roots.get(value, value)
        if write and value in targets:
            base, start = targets[value], 0
        elif root in known:
            base, start = names.table(known[root]), 0
        elif root in fixed:
            base, start = pointers[root], 0
        else:
            base, start = "nnkit_floats", arena.offsets[root]
        return f"{base} + {start + offset}" if start + offset else base

    def text(argument: Argument, step: int, index: int) -> str:
        match argument:
            case Read(value, offset):
                return place(value, offset, write=False)
            case Write(value, offset):
                return place(value, offset, write=True)
            case Scratch(_, kind):
                return f"nnkit_{kind}s + {arena.offsets[_scratch_id(step, index)]}"
            case Table(values):
                return names.table(values)
            case Struct():
                return names.struct(argument)
        return argument

    steps = []
    count = 0
    for owner, calls in work:
        statements = []
        for call in calls:
            arguments = ", ".join(text(a, count, i) for i, a in enumerate(call.arguments))
            statements.append(f"{call.function}({arguments});")
            count += 1
        title = (owner.name, owner.node.op_type) if owner else ("outputs that another value holds", "copy")
        steps.append(Step(title[0], title[1], tuple(statements)))
    kernels = {call.kernel for _, calls in work for call in calls}
    if kernels & {"detection_output", "proposal"}:
        kernels.add("select_best")
    return Assembly(tuple(steps), tuple(names.found.values()), tuple(sorted(kernels)), arena, names.table_bytes)


def _lower_all(graph: SegmentGraph) -> list[tuple[Layer, Lowered]]:
    lowered: list[tuple[Layer, Lowered]] = []
    refusals = []
    for node in graph.nodes:
        layer = Layer(node, graph)
        try:
            for name in node.output:
                if name:
                    layer.shape_of(name)
            lowered.append((layer, lower(layer)))
        except RefusedError as error:
            refusals.append(f"{layer.name} ({node.op_type}): {error}")
    if refusals:
        raise ModelError(
            "these layers of the CPU segment have no C code:\n  " + "\n  ".join(refusals),
            remedy="rewrite them with operators of docs/cpu_segments.md, or leave them on the NPU",
        )
    return lowered


def _scratch_id(step: int, index: int) -> str:
    return f"scratch {step}.{index}"


def _copied(name: str, shape: Shape) -> Call:
    count = int(np.prod(shape))
    return copy(Read(name), Write(name), [count], [1], [1])


def _buffers(
    graph: SegmentGraph,
    work: list[tuple[Layer | None, list[Call]]],
    roots: Mapping[str, str],
    known: Mapping[str, NDArray[np.float32]],
    fixed: set[str],
) -> list[Buffer]:
    """Every inner value and scratch, with its lifetime in calls."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    buffers = []
    step = 0
    for _, calls in work:
        for call in calls:
            for index, argument in enumerate(call.arguments):
                if isinstance(argument, Scratch):
                    buffers.append(Buffer(_scratch_id(step, index), argument.count, argument.kind, step, step))
                elif isinstance(argument, Read | Write):
                    root = roots.get(argument.value, argument.value)
                    if root not in fixed and root not in known:
                        first.setdefault(root, step)
                        last[root] = step
            step += 1
    return buffers + [
        Buffer(name, int(np.prod(graph.shapes[name])), "float", first[name], last[name]) for name in first
    ]

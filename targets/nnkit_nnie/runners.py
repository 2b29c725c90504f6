"""What can be run of an artifact without the vendor's chip or simulator.

* `caffe`: the emitted prototxt and caffemodel, read again. Every layer of the NNIE is rebuilt from them and computed
  from the Program's inputs of that layer; its output may differ by one unit of S20.12, for layers that float32
  computes in another order. A wrong weight, parameter, order or connection is far more.
* `cpu_c`: the C of every CPU segment, compiled on this machine, on the Program's inputs of that segment.
* `mapper`: the compiled network. Only the vendor's tools and boards run it; nnkit does not, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nnkit.c.host_compiler import why_no_compiler
from nnkit.errors import ToolError
from nnkit.graph.metadata import CAFFE_IN_PLACE, CAFFE_LAYER
from nnkit.graph.view import GraphView, Node
from nnkit.program import Float, Program
from nnkit.simulate import simulate
from nnkit.target import Contract, RunResult
from nnkit_nnie.chips import CHIPS
from nnkit_nnie.emit import read_build_file, read_segments_file
from nnkit_nnie.gfpq.ops import CpuLayer, NnieLayer, NnieOp, NnieWeighted
from nnkit_nnie.gfpq.quantize import Formats, layer_op
from nnkit_nnie.layers import Layer
from nnkit_nnie.mapper.run import find_mapper, no_mapper
from nnkit_nnie.options import NnieOptions

if TYPE_CHECKING:
    from nnkit.graph import Model

_RELATIVE = 1e-4  # of the largest magnitude: float32 in another order of summation
_ONE_UNIT = 1.0


def _bound(program: Program, tensor: str) -> float:
    if not isinstance(program.tensors[tensor].format, Float):
        return _ONE_UNIT
    producer = program.producer(tensor)
    magnitude = producer.magnitude if isinstance(producer, CpuLayer) else 0.0
    return _RELATIVE * max(1.0, magnitude)


class CaffeRunner:
    """Reads the emitted Caffe pair again and computes every layer of it."""

    name = "caffe"
    contract: Contract = "bounded"
    emulated = False

    def missing(self) -> str | None:
        """Nothing: Caffe itself is not needed."""
        return None

    def bound(self, program: Program, tensor: str) -> float:
        """One unit of S20.12; for float 1e-4 of the magnitude."""
        return _bound(program, tensor)

    def run(
        self, artifact: Path, program: Program, inputs: Sequence[Mapping[str, NDArray[Any]]], *, trace: bool
    ) -> list[RunResult]:
        """Every tensor of the NNIE as the emitted pair computes it from the Program's own inputs of the layer."""
        rebuilt = _rebuilt_ops(artifact, program)
        results = []
        for given in inputs:
            expected = simulate(program, given)
            tensors = dict(expected)
            for op in program.ops:
                again = rebuilt.get(op.output)
                if again is not None:
                    values = [expected[name] for name in op.inputs]
                    tensors[op.output] = again.compute(values, program.tensors)
            computed = {name: tensors[name] for name in rebuilt}
            results.append(_result(program, computed, trace))
        return results


def _rebuilt_ops(artifact: Path, program: Program) -> dict[str, NnieOp]:
    """The NNIE's ops made anew from the emitted files, by output. Raises ToolError where a layer is not there."""
    networks = read_build_file(artifact)["networks"]
    written = [_Written.of(_read_again(artifact / each["folder"], each["stem"])) for each in networks]
    ops: dict[str, NnieOp] = {}
    for op in program.ops:
        if isinstance(op, NnieWeighted | NnieLayer):
            index = next((i for i, each in enumerate(networks) if op.layer in each["layers"]), 0)
            ops[op.output] = _rebuilt(written[index], op, networks[index])
    return ops


def _read_again(folder: Path, stem: str) -> Model:
    from nnkit.importers.caffe_importer import import_caffe

    return import_caffe(folder / f"{stem}.prototxt", folder / f"{stem}.caffemodel").model


@dataclass(frozen=True, eq=False)
class _Written:
    """An emitted network, read again. by_layer: nodes by the Caffe layer that they came from; blobs: see `_blobs`."""

    graph: GraphView
    by_layer: Mapping[str | None, Sequence[Node]]
    blobs: Mapping[str, str]

    @classmethod
    def of(cls, model: Model) -> _Written:
        graph = GraphView.of(model)
        by_layer: dict[str | None, list[Node]] = {}
        for node in graph.nodes:
            by_layer.setdefault(node.metadata.get(CAFFE_LAYER), []).append(node)
        return cls(graph, by_layer, _blobs(graph, by_layer))


def _rebuilt(pair: _Written, op: NnieWeighted | NnieLayer, build: Mapping[str, Any]) -> NnieOp:
    graph = pair.graph
    nodes = tuple(node for name in build["layers"].get(op.layer, []) for node in pair.by_layer.get(name, ()))
    if not nodes:
        raise ToolError(f"the emitted prototxt has no layer {op.layer!r}", where=f"{build['stem']}.prototxt")
    layer = _as_layer(pair, nodes, op, build["blobs"])
    value = _top(layer, op, build["blobs"])
    bits = op.weight_scales[0].bits if isinstance(op, NnieWeighted) else 8
    again = layer_op(graph, layer, value, 0, Formats(op.stored, op.reads, bits, op.from_cpu))
    if not isinstance(again, NnieOp):
        raise ToolError(f"layer {op.layer!r} is written as another kind of layer", where=f"{build['stem']}.prototxt")
    return replace(again, inputs=op.inputs, output=op.output)  # by the program's names


def _as_layer(pair: _Written, nodes: tuple[Node, ...], op: NnieOp, blobs: Mapping[str, str]) -> Layer:
    """The nodes as one layer whose inputs are in the op's order. Raises ToolError where they read something else."""
    produced = [name for node in nodes for name in node.results]
    read = list(dict.fromkeys(n for node in nodes for n in pair.graph.data_inputs(node) if n not in produced))
    wanted = [blobs.get(name, name) for name in op.inputs]
    by_blob = {pair.blobs.get(name, name): name for name in read}
    if sorted(by_blob) != sorted(wanted):
        raise ToolError(
            f"layer {op.layer!r} reads {sorted(by_blob)} as written, and {sorted(wanted)} in the program",
            where="emitted prototxt",
        )
    return Layer(
        name=op.layer,
        kind=op.caffe_type,
        nodes=nodes,
        inputs=tuple(by_blob[blob] for blob in wanted),
        outputs=tuple(produced),
    )


def _blobs(graph: GraphView, by_layer: Mapping[str | None, Sequence[Node]]) -> dict[str, str]:
    """The blob that a value of a re-imported network stands for, where it is not of its name.

    What a layer in place reads and what it gives are one blob, which has the name of the last; that of an input of
    the network keeps the input's.
    """
    blobs: dict[str, str] = {}
    in_place = _in_place(graph, by_layer)
    for node, sources in in_place:
        for source in sources:
            origin = blobs.get(source, source)
            if origin in graph.inputs:
                blobs[node.output] = origin
    over_inputs = frozenset(blobs)
    for node, sources in reversed(in_place):
        if node.output not in over_inputs:
            for name in sources:
                blobs[name] = blobs.get(node.output, node.output)
    return blobs


def _in_place(graph: GraphView, by_layer: Mapping[str | None, Sequence[Node]]) -> list[tuple[Node, tuple[str, ...]]]:
    """The nodes of layers in place, in order, each with the computed values that its layer reads."""
    nodes: list[tuple[Node, tuple[str, ...]]] = []
    for node in graph.nodes:
        if CAFFE_IN_PLACE in node.metadata:
            first = by_layer[node.metadata.get(CAFFE_LAYER)][0]
            nodes.append((node, tuple(graph.data_inputs(first))))
    return nodes


def _top(layer: Layer, op: NnieOp, blobs: Mapping[str, str]) -> str:
    wanted = blobs.get(op.output, op.output)
    if wanted in layer.outputs:
        return wanted
    return layer.outputs[-1]


class CpuCodeRunner:
    """Compiles the C of the CPU segments and runs it on this machine."""

    name = "cpu_c"
    contract: Contract = "bounded"
    emulated = False

    def missing(self) -> str | None:
        """Whether a C compiler is at hand."""
        return why_no_compiler()

    def bound(self, program: Program, tensor: str) -> float:
        """1e-4 of the magnitude that calibration saw, at least 1e-4."""
        return _bound(program, tensor)

    def run(
        self, artifact: Path, program: Program, inputs: Sequence[Mapping[str, NDArray[Any]]], *, trace: bool
    ) -> list[RunResult]:
        """The outputs of every CPU segment from the Program's inputs of it."""

        from nnkit.cpu_segments import CompiledSegment

        segments = [each for each in read_segments_file(artifact)["segments"] if "function" in each]
        computed: list[dict[str, NDArray[Any]]] = [{} for _ in inputs]
        expected = [simulate(program, given) for given in inputs] if segments else []
        for segment in segments:
            compiled = CompiledSegment(artifact / "cpu" / segment["function"], segment["function"])
            try:
                for values, tensors in zip(expected, computed, strict=True):
                    real = {each["name"]: _real(program, values, each["name"]) for each in segment["inputs"]}
                    results = compiled.run(real)
                    for each in segment["outputs"]:
                        tensor = program.tensors[each["name"]]
                        tensors[tensor.name] = tensor.format.quantize(results[tensor.name]).reshape(tensor.shape)
            finally:
                compiled.close()
        return [_result(program, tensors, trace) for tensors in computed]


def _result(program: Program, computed: Mapping[str, NDArray[Any]], trace: bool) -> RunResult:
    """What was computed; the other outputs of the program are left out."""
    return RunResult(
        outputs={name: computed[name] for name in program.outputs if name in computed},
        tensors=dict(computed) if trace else {},
        left_out=frozenset(program.outputs) - computed.keys(),
    )


def _real(program: Program, values: Mapping[str, NDArray[Any]], name: str) -> NDArray[np.float32]:
    """A tensor in real units."""
    return np.asarray(program.tensors[name].format.dequantize(values[name]), np.float32)


class MapperRunner:
    """The compiled network, which only the vendor's tools and boards run."""

    name = "mapper"
    contract: Contract = "not_run"
    emulated = False

    def __init__(self, options: NnieOptions) -> None:
        self._options = options

    def missing(self) -> str | None:
        """Why the compiled network is not run: it never was compiled, or nothing here can run it."""
        program = find_mapper(self._options) if self._options.mapper.run else None
        if program is None:
            if not self._options.mapper.run:
                return "never compiled: the recipe says mapper.run: false"
            return no_mapper(CHIPS[self._options.chip])
        return (
            "compiled and checked, but run by the vendor's boards only; compare the mapper's dumps with "
            "`nnkit compare BUILD --dumps artifact/mapper_quant`"
        )

    def bound(self, program: Program, tensor: str) -> float:
        """Not asked: nothing is run."""
        return 0.0

    def run(
        self, artifact: Path, program: Program, inputs: Sequence[Mapping[str, NDArray[Any]]], *, trace: bool
    ) -> list[RunResult]:
        """Nothing can. Raises ToolError."""
        raise ToolError(self.missing() or "nothing runs it here", where="mapper")

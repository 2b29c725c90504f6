"""TFLite (LiteRT) import: float networks, and networks quantised to int8 or int16x8 with their integers kept.

A file becomes an ONNX graph, a quantised one in QDQ form, and that is imported as any other.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from nnkit.errors import ModelError
from nnkit.graph.refusal import Refusal, Refused, refusal_error
from nnkit.importers.import_options import DEFAULT_OPTIONS, ImportOptions
from nnkit.importers.onnx_importer import ImportResult, ReadModel, import_read
from nnkit.importers.tflite.builder import Builder, in_order
from nnkit.importers.tflite.network import TfliteNetwork, TfliteOperator, TfliteTensor, read_tflite
from nnkit.importers.tflite.table import OPERATORS, values_read
from nnkit.importers.tool_steps import WORKING_IR_VERSION, WORKING_OPSET
from nnkit.names import NamePool


def import_tflite(path: str | os.PathLike[str], options: ImportOptions = DEFAULT_OPTIONS) -> ImportResult:
    """Import a TFLite file. Its constants are not folded, and its layouts are settled here: `simplify`, `any_batch`
    and `channels_last` do not apply.

    Inputs and outputs of four dimensions are taken channels first, and all of them in real units.

    Raises:
        UserFileError: the file is missing or unreadable.
        ModelError: it is broken, or has operators that cannot be imported; all of them are listed.
        RecipeError: as `import_onnx`.
        ToolError: the extra `tflite` is not installed.
    """
    file = Path(path)
    network = read_tflite(file)
    proto = onnx_of(network, str(file))
    kept = replace(options, simplify=False, any_batch=False, channels_last=())
    result = import_read(ReadModel(proto, file), kept)
    return replace(result, notes=(*_notes(network), *result.notes))


def onnx_of(network: TfliteNetwork, where: str) -> onnx.ModelProto:
    """The network as ONNX. Raises ModelError naming every operator that has no counterpart."""
    build = Builder(network, NamePool(tensor.name for tensor in network.tensors))
    refusals = []
    given = []
    for index in network.inputs:
        tensor = build.tensor(index)
        given.append(helper.make_tensor_value_info(tensor.name, _element_type(tensor), _channels_first(tensor)))
        try:
            build.made(index, tensor.name, "first")
        except Refused as refused:
            raise ModelError(f"an input: {refused.reason}", where=where, remedy=refused.remedy) from refused
    for operator in _needed(network):
        try:
            writer = OPERATORS.get(operator.kind)
            if writer is None:
                raise Refused("nnkit imports no such operator", _instead_of(operator.kind))
            writer(build, operator)
        except Refused as refused:
            name = build.tensor(operator.outputs[0]).name
            refusals.append(Refusal(name, operator.kind, refused.reason, refused.remedy))
            for result in operator.outputs:  # what reads it is refused for its own reasons alone
                build.values[result] = {"last": build.tensor(result).name}
        except (IndexError, ValueError, TypeError, ZeroDivisionError) as error:  # shapes that contradict each other
            raise ModelError(
                f"its {operator.kind} contradicts the shapes of its tensors",
                where=f"{where}: {build.tensor(operator.outputs[0]).name}",
                remedy="convert the network again",
            ) from error
    if refusals:
        refusal = refusal_error(refusals, "cannot be imported", "convert the network without these operators")
        refusal.where = where
        raise refusal
    try:
        results = _results(build, network)
    except Refused as refused:
        raise ModelError(f"an output: {refused.reason}", where=where, remedy="convert the network again") from refused
    graph = helper.make_graph(build.nodes, "tflite", given, results, build.constants)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", WORKING_OPSET)], ir_version=WORKING_IR_VERSION
    )


def _instead_of(kind: str) -> str:
    """How to convert the network without an operator that is not imported; empty where nothing is known."""
    if kind.startswith("Flex"):
        return "convert it with TFLITE_BUILTINS alone"
    return _UNROLLED if kind.endswith(("_RNN", "_LSTM")) else ""


_UNROLLED = "convert the network with its recurrent layers unrolled (`unroll=True` in Keras)"


def _needed(network: TfliteNetwork) -> list[TfliteOperator]:
    """The operators that an output depends on, those apart that only compute shapes which the file knows."""
    read, needed = set(network.outputs), []
    for operator in reversed(network.operators):
        if read & set(operator.outputs):
            needed.append(operator)
            read |= {operator.inputs[each] for each in values_read(operator)}
    return needed[::-1]


def _results(build: Builder, network: TfliteNetwork) -> list[onnx.ValueInfoProto]:
    """The outputs, each by its own name."""
    results: list[onnx.ValueInfoProto] = []
    for index in network.outputs:
        tensor = build.tensor(index)
        value, name = build.read(index, "first"), tensor.name
        if value != name:
            _rename(build, {name: f"{name}.value"})
            made_here = any(value in node.output for node in build.nodes)
            if made_here and value not in (result.name for result in results):
                _rename(build, {value: name})
            else:
                build.node("Identity", [value], name)
        results.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, _channels_first(tensor)))
    return results


def _rename(build: Builder, names: Mapping[str, str]) -> None:
    for node in build.nodes:
        node.input[:] = [names.get(each, each) for each in node.input]
        node.output[:] = [names.get(each, each) for each in node.output]
    for made in build.values.values():
        made.update({order: names.get(each, each) for order, each in made.items()})


def _channels_first(tensor: TfliteTensor) -> list[int]:
    return in_order("first", tensor.shape)


def _element_type(tensor: TfliteTensor) -> int:
    """Float for what is float or stands for it; integers (token ids) as they are."""
    if tensor.dtype.kind == "f" or tensor.stores_integers:
        return int(TensorProto.FLOAT)
    return int(helper.np_dtype_to_tensor_dtype(tensor.dtype))


def _notes(network: TfliteNetwork) -> tuple[str, ...]:
    ends = [network.tensors[index] for index in (*network.inputs, *network.outputs)]
    turned = [tensor.name for tensor in ends if len(tensor.shape) == 4]
    stored = [tensor.name for tensor in ends if tensor.stores_integers]
    notes = []
    if turned:
        notes.append(f"channels stand first in {', '.join(turned)}: TFLite has them last")
    if stored:
        notes.append(f"{', '.join(stored)} are in real units: the file stores them as integers")
    return tuple(notes)

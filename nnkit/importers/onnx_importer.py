"""ONNX import: a file that may be anything becomes a Model with static shapes, names and tags, or a clear refusal.

The order matters: tags are lifted from the names as they stand in the file, before any tool can change them, and
followed through the tools afterwards. All that runs native code on the untrusted file does so in another process.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nnkit.custom_ops import DOMAIN, VERSION, is_custom
from nnkit.errors import ModelError
from nnkit.graph import InputSpec, Model, OutputSpec
from nnkit.importers.bounds import check_graph
from nnkit.importers.external_data import external_files, load_external_data
from nnkit.importers.fixed_suppression import fix_suppression
from nnkit.importers.float_types import to_float32
from nnkit.importers.functions import check_size_inlined
from nnkit.importers.group_norms import group_norms_to_parts, ranks_of
from nnkit.importers.import_options import DEFAULT_OPTIONS, ImportOptions
from nnkit.importers.input_shapes import DeclaredInputs, pin_inputs
from nnkit.importers.model_file import read_model_file
from nnkit.importers.name_tags import NO_GLOBS, follow_tags, lift_tags
from nnkit.importers.operators import (
    DEFAULT_DOMAINS,
    check_equations,
    check_inference_mode,
    check_operators,
    check_versions,
)
from nnkit.importers.static_shapes import static_shapes
from nnkit.importers.tensors import check_numbers, check_tensors, model_bytes
from nnkit.importers.tidy import (
    check_value_names,
    constants_to_initializers,
    drop_constant_outputs,
    drop_initializers_from_inputs,
    drop_unused,
    name_left_out_outputs,
    name_nodes,
    sort_nodes,
    strip_annotations,
)
from nnkit.importers.tool_process import DEFAULT_LIMITS, ToolLimits, run_steps
from nnkit.reading import MAX_MODEL_BYTES, read_regular_file

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True, eq=False)
class ImportResult:
    """An imported network.

    notes: what the import changed, one sentence each, for the report.
    files: the files that were read, the model's first; a cache key needs their contents.
    left_out: outputs of the file that the network has not, as they are constants.
    """

    model: Model
    notes: tuple[str, ...]
    files: tuple[Path, ...]
    left_out: tuple[str, ...] = ()


def import_onnx(path: str | os.PathLike[str], options: ImportOptions = DEFAULT_OPTIONS) -> ImportResult:
    """Import an ONNX file (operator sets 9 to the newest that the installed onnx knows).

    Raises:
        UserFileError: the model or its data file is missing or unreadable.
        ModelError: the model is broken, or cannot be imported.
        RecipeError: a glob matches no layer (`TagGlobError`), or a declared input contradicts the model.
    """
    file = Path(path)
    return import_read(ReadModel(read_model_file(file), file), options)


@dataclass(frozen=True, eq=False)
class ReadNetwork:
    """An ONNX network as read and checked, its nodes named, before any tool has seen it.

    where: the file, for messages. files: those it was read from.
    """

    proto: onnx.ModelProto
    opset: int
    where: str
    notes: tuple[str, ...]
    files: tuple[Path, ...]


def read_onnx_network(path: str | os.PathLike[str], limits: ToolLimits = DEFAULT_LIMITS) -> ReadNetwork:
    """Read an ONNX file with its data files, and check all that can be told without running a tool.

    Raises UserFileError, ModelError.
    """
    file = Path(path)
    return _checked(ReadModel(read_model_file(file), file), limits)


@dataclass(frozen=True, eq=False)
class ReadModel:
    """What was read from a file, as ONNX."""

    proto: onnx.ModelProto
    file: Path


def import_read(read: ReadModel, options: ImportOptions) -> ImportResult:
    """As `import_onnx`, of a network that has been read; it is changed."""
    from nnkit.graph.weights_aside import bytes_with_weights, take_weights

    outputs = [value.name for value in read.proto.graph.output]
    network = _checked(read, options.limits)
    del read
    tagged = lift_tags(network.proto.graph, options.tag_globs)
    declared = DeclaredInputs(options.inputs, options.input_where, options.any_batch)
    notes = [*network.notes, *settle_inputs(network, declared)]
    opset, where, files = network.opset, network.where, network.files
    _keep_known_domains(network.proto)
    weights = take_weights(network.proto.graph)
    light = network.proto.FromString(network.proto.SerializeToString())
    del network  # a message keeps the memory of what it held until it goes itself
    folding = ["simplify", "resolve", "fold"] if options.simplify else []
    steps = ["check", "resolve", "convert", *folding, "finish"]
    result = run_steps(light, steps, where=where, limits=options.limits, weights=weights)
    notes += result.notes
    finished = result.model
    tags, gone = follow_tags(tagged, finished.graph, where)
    shapes = static_shapes(finished.graph, where)
    model = Model(
        onnx_bytes=bytes_with_weights(finished, result.weights),
        tags=tags,
        inputs=tuple(InputSpec(value.name, shapes[value.name]) for value in finished.graph.input),
        outputs=tuple(OutputSpec(value.name, shapes[value.name]) for value in finished.graph.output),
        opset=opset,
    )
    if options.channels_last:
        from nnkit.importers.channels_last import channels_first

        model = channels_first(model, options.channels_last, options.input_where)
        notes += [f"input '{name}' is taken as {list(_shape(model, name))}" for name in options.channels_last]
    given = {spec.name for spec in model.outputs}
    return ImportResult(model, (*notes, *gone), files, tuple(name for name in outputs if name not in given))


def _checked(read: ReadModel, limits: ToolLimits) -> ReadNetwork:
    """What was read, with its data files, checked. Raises UserFileError, ModelError."""
    from nnkit.importers.qoperator import qoperators_to_qdq  # which loads onnx: commands that read no network do not

    proto, file, where = read.proto, read.file, str(read.file)
    opset = check_versions(proto, where)
    data_files = load_external_data(proto, file)
    check_tensors(proto, where)
    if model_bytes(proto) >= MAX_MODEL_BYTES:
        raise ModelError(
            f"the network and its data are larger than {MAX_MODEL_BYTES:,} bytes",
            where=where,
            remedy="a network for these targets is far smaller: check which file this is",
        )
    notes: list[str] = []
    if proto.functions:
        check_size_inlined(proto, where)
        proto, inlined = _inlined(proto, where, limits)
        notes += inlined
    ranks = ranks_of(proto.graph)
    strip_annotations(proto)
    graph = proto.graph
    check_graph(graph, where)
    check_value_names(_without_weight_inputs(graph, notes), where)
    if sort_nodes(graph, where):
        notes.append("the layers are brought into an order of execution")
    notes += drop_constant_outputs(graph, where)
    constants_to_initializers(graph)
    notes += qoperators_to_qdq(graph)
    notes += name_nodes(graph)
    name_left_out_outputs(graph)
    notes += group_norms_to_parts(graph, opset, ranks)
    notes += fix_suppression(proto, where)
    check_operators(graph, opset, where)
    check_equations(graph, where)
    check_inference_mode(graph, where)
    return ReadNetwork(proto, opset, where, tuple(notes), (file, *data_files))


def settle_inputs(read: ReadNetwork, declared: DeclaredInputs) -> tuple[str, ...]:
    """Give the network's inputs static shapes in float32, in place; notes on what was changed.

    Raises ModelError and RecipeError, as `pin_inputs`.
    """
    graph = read.proto.graph
    all_inputs = {value.name for value in graph.input}
    notes = [*drop_unused(graph), *to_float32(read.proto, read.where)]
    unused = all_inputs - {value.name for value in graph.input}
    notes += pin_inputs(graph, declared, read.where, unused=unused)
    check_numbers(graph, read.where)
    return tuple(notes)


def _shape(model: Model, name: str) -> tuple[int, ...]:
    return next(spec.shape for spec in model.inputs if spec.name == name)


def onnx_digest(path: str | os.PathLike[str]) -> str:
    """SHA-256 over a model's file and its external data: what a cache key needs to know of it.

    Raises:
        UserFileError, ModelError: as `import_onnx` does for files that cannot be read.
    """
    file = Path(path)
    proto = read_model_file(file)
    state = hashlib.sha256()
    for part in (file, *external_files(proto, file)):
        content = read_regular_file(part, what=f"the model's file '{part.name}'")
        state.update(len(content).to_bytes(8, "little"))
        state.update(content)
    return state.hexdigest()


def _inlined(proto: onnx.ModelProto, where: str, limits: ToolLimits) -> tuple[onnx.ModelProto, tuple[str, ...]]:
    """The model with its own functions inlined. A call that carries a tag by its name is refused, as the name goes.

    Raises:
        ModelError: see `run_steps`; or a tagged call.
    """
    import onnx

    from nnkit.graph.weights_aside import put_weights

    own = {(function.domain, function.name) for function in proto.functions}
    calls = onnx.GraphProto()
    calls.node.extend(node for node in proto.graph.node if (node.domain, node.op_type) in own)
    name_nodes(calls)
    for layer in lift_tags(calls, NO_GLOBS):
        raise ModelError(
            f"layer '{layer.name}' is a call of a function of the model, which is inlined: its tag would be lost",
            where=where,
            remedy="tag layers inside by globs in the recipe, or export the network without functions",
        )
    result = run_steps(proto, ["inline"], where=where, limits=limits)
    put_weights(result.model.graph, result.weights)
    return result.model, result.notes


def _without_weight_inputs(graph: onnx.GraphProto, notes: list[str]) -> onnx.GraphProto:
    if drop_initializers_from_inputs(graph):
        notes.append("weights that are listed as inputs too are taken as constants")
    return graph


def _keep_known_domains(proto: onnx.ModelProto) -> None:
    version = next(entry.version for entry in proto.opset_import if entry.domain in DEFAULT_DOMAINS)
    del proto.opset_import[:]
    proto.opset_import.add(domain="", version=version)
    if any(is_custom(node) for node in proto.graph.node):
        proto.opset_import.add(domain=DOMAIN, version=VERSION)
    for node in proto.graph.node:
        if node.domain in DEFAULT_DOMAINS:
            node.domain = ""

"""What the import has done by other people's native code: it runs in a process of its own (see tool_process.py).

Steps, in this order: inline (only a model with functions; it ends there), check, resolve, convert, simplify, resolve,
fold, finish.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from nnkit.custom_ops import DOMAIN, VERSION, has_custom_nodes, infer_shapes, infer_shapes_anew
from nnkit.errors import ModelError
from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec
from nnkit.graph.drawing import drawn_float32
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.graph.view import Node
from nnkit.graph.weights_aside import (
    Weights,
    put_weights,
    take_weights,
    weight_arrays,
    with_weights_as_inputs,
)
from nnkit.importers.bounds import check_window_reads
from nnkit.importers.canonical import canonicalise
from nnkit.importers.ceil_pools import leave_windows_out
from nnkit.importers.constant_layers import fold_constant_layers
from nnkit.importers.known_branches import take_known_branches
from nnkit.importers.operators import DEFAULT_DOMAINS
from nnkit.importers.static_shapes import static_shapes
from nnkit.importers.tidy import (
    constants_to_initializers,
    drop_constant_outputs,
    drop_unused,
    graphs,
    name_nodes,
    read_names,
)
from nnkit.importers.value_memory import check_values_fit
from nnkit.importers.without_rounding import without_rounding

WORKING_OPSET = 21
"""The operator set that imported models are converted to: the newest that conversion reaches from all older ones
and to which all newer ones can be taken back."""

WORKING_IR_VERSION = 10
"""The file format version that goes with it."""

OLDEST_KEPT_OPSET = 13
"""From here on axes and bounds are inputs as later stages expect them, so that a model may stay as it is."""

_REPRODUCES = 1e-4
_MOST_PASSES = 3


@dataclass
class StepState:
    """What the steps hand on: the model, notes for the user, and the model as it was before any tool.

    Both lack the data of large weights (see graph/weights_aside.py); a step may put other weights in their place.
    """

    proto: onnx.ModelProto
    weights: Weights
    original: onnx.ModelProto
    original_weights: Weights
    where: str
    notes: list[str]


Step = Callable[[StepState], None]


def inline(state: StepState) -> None:
    """Put the bodies of the model's own functions in the place of their calls."""
    from onnx import inliner

    count = len(state.proto.functions)
    state.proto = _guarded("the model's functions cannot be inlined", state, inliner.inline_local_functions)
    state.notes.append(f"{count} functions of the model are inlined")


def check(state: StepState) -> None:
    """Infer shapes, with types checked, and have ONNX's own checker look at the result."""
    inferred = _inferred(state)
    if all(value.type.tensor_type.HasField("shape") for value in inferred.graph.output):
        # The checker wants shapes for outputs, which not every exporter writes and inference may not find yet.
        checked = with_weights_as_inputs(inferred, state.weights)
        _guarded("the model breaks ONNX's rules", state, lambda _: onnx.checker.check_model(checked))
    state.proto = inferred


def resolve(state: StepState) -> None:
    """Take the branches whose conditions are known, and size pools as what runs them does."""
    nodes = state.proto.graph.node
    if not any(node.op_type == "If" or Node.of(node).integer("ceil_mode", 0) for node in nodes):
        return
    count = len(nodes)
    while True:
        state.proto = _inferred(state)
        taken = take_known_branches(state.proto, lambda part: _run_constants(state, part))
        state.notes += taken
        if not taken and not leave_windows_out(state.proto.graph, state.where):
            break
    if len(state.proto.graph.node) != count:
        state.notes += name_nodes(state.proto.graph)


def convert(state: StepState) -> None:
    """Convert to `WORKING_OPSET`; a model that cannot be converted stays as it is from opset 13 on."""
    from onnx import version_converter

    opset = opset_of(state.proto)
    if opset == WORKING_OPSET:
        state.proto.ir_version = WORKING_IR_VERSION
        return
    before = state.proto.graph
    state.proto.ir_version = max(state.proto.ir_version, 4)  # below, the weights would have to be inputs too
    try:
        converted = version_converter.convert_version(state.proto, WORKING_OPSET)
    except Exception as error:
        if opset < OLDEST_KEPT_OPSET:
            raise ModelError(
                f"the model cannot be converted from operator set {opset} to {WORKING_OPSET}: {_message(error)}",
                where=state.where,
                remedy=f"export the network with operator set {WORKING_OPSET} or near",
            ) from error
        state.notes.append(f"kept in operator set {opset}: conversion failed ({_message(error)})")
        return
    _restore_upsample_names(before, converted.graph)
    if has_custom_nodes(converted) and DOMAIN not in {entry.domain for entry in converted.opset_import}:
        converted.opset_import.add(domain=DOMAIN, version=VERSION)  # conversion keeps the default domain alone
    converted.ir_version = WORKING_IR_VERSION
    state.proto = converted
    state.notes.append(f"converted from operator set {opset} to {WORKING_OPSET}")


def _restore_upsample_names(before: onnx.GraphProto, after: onnx.GraphProto) -> None:
    """Conversion turns every Upsample, in order, into a Resize without name and with another result name."""
    upsamples = [node for node in before.node if node.op_type == "Upsample"]
    known = {node.name for node in before.node}
    resizes = [node for node in after.node if node.op_type == "Resize" and node.name not in known]
    if len(upsamples) != len(resizes):
        return
    renamed = {}
    for old, new in zip(upsamples, resizes, strict=True):
        new.name = old.name
        renamed[new.output[0]] = old.output[0]
        new.output[0] = old.output[0]
    for graph in graphs(after):
        for node in graph.node:
            for position, name in enumerate(node.input):
                node.input[position] = renamed.get(name, name)


def simplify(state: StepState) -> None:
    """Fold constants with onnxsim, where there is anything to fold. Its other optimisations would fuse layers.

    What it leaves because it does not know its size yet, as an Expand of a constant, it folds the next time.
    """
    constants_to_initializers(state.proto.graph)
    if not _folds(state.proto.graph):
        return
    if has_custom_nodes(state.proto):
        state.notes.append("not simplified: onnxsim does not know the operators of ai.nnkit")
        return
    folded = 0
    for _ in range(_MOST_PASSES):
        count, failure = _fold(state)
        folded += count
        if failure:
            state.notes.append(f"not simplified: onnxsim {failure}")
        if not count or not _folds(state.proto.graph):
            break
    if folded:
        state.notes.append(f"simplified by onnxsim: {folded} layers folded into constants")


def _fold(state: StepState) -> tuple[int, str]:
    """How many layers one call of onnxsim has folded into constants; why it could not be used, or an empty text."""
    # onnxsim imports these where they are installed, which takes seconds and serves other functions than this one.
    for unused in ("torch", "sympy"):
        sys.modules.setdefault(unused, None)  # type: ignore[arg-type]
    try:
        before = _inferred(state).graph
    except Exception as error:
        return 0, f"failed ({_message(error)})"
    check_values_fit(before, state.where)  # onnxsim would begin to compute such a value
    check_window_reads(before, state.where)
    try:
        import onnxsim

        whole = _inferred(state)
        put_weights(whole.graph, state.weights)
        result, _ = onnxsim.simplify(whole, check_n=0, perform_optimization=False)
    except Exception as error:
        return 0, f"failed ({_message(error)})"
    after = result.graph
    if [v.name for v in before.input] != [v.name for v in after.input] or (
        [v.name for v in before.output] != [v.name for v in after.output]
    ):
        return 0, "changed the inputs or outputs"
    folded = len(before.node) - len(after.node)
    if folded:
        state.weights = take_weights(result.graph)
        state.proto = result
    return folded, ""


def fold(state: StepState) -> None:
    """Fold what onnxsim left of the layers that compute from constants alone, or could not be asked for."""
    constants_to_initializers(state.proto.graph)
    if not _folds(state.proto.graph):
        return

    proto = _inferred(state)
    try:
        count = fold_constant_layers(proto, lambda part: _run_constants(state, part))
    except MemoryError:
        raise
    except Exception:
        return  # ONNX Runtime cannot run them, which is told where it runs the whole network
    if count:
        state.proto = proto
        state.weights = {**state.weights, **take_weights(proto.graph)}
        state.notes.append(
            f"{count} {'layer' if count == 1 else 'layers'} that compute from constants alone are folded"
        )


def finish(state: StepState) -> None:
    """Tidy, bring to one spelling, infer all shapes, and run the result against the original in ONNX Runtime."""
    graph = state.proto.graph
    constants_to_initializers(graph)
    state.notes += drop_constant_outputs(graph, state.where)
    drop_unused(graph)
    state.proto = _inferred(state)
    graph = state.proto.graph
    static_shapes(graph, state.where)
    imported = [node.name for node in state.original.graph.node]
    canonicalise(graph, opset_of(state.proto), imported)
    drop_unused(graph)
    name_nodes(graph)
    state.proto = _inferred(state)
    static_shapes(state.proto.graph, state.where)
    _compare(state)


STEPS: dict[str, Step] = {
    "inline": inline, "check": check, "resolve": resolve, "convert": convert, "simplify": simplify, "fold": fold,
    "finish": finish,
}  # fmt: skip


def opset_of(proto: onnx.ModelProto) -> int:
    """Version of the default operator set."""
    return next(int(entry.version) for entry in proto.opset_import if entry.domain in DEFAULT_DOMAINS)


def _inferred(state: StepState) -> onnx.ModelProto:
    inferred: onnx.ModelProto = _guarded("shapes cannot be inferred", state, infer_shapes_anew)
    return inferred


def _guarded(what: str, state: StepState, action: Callable[[onnx.ModelProto], Any]) -> Any:
    try:
        return action(state.proto)
    except MemoryError:
        raise
    except Exception as error:
        raise ModelError(
            f"{what}: {_message(error)}", where=state.where, remedy="correct the network, or export it again"
        ) from error


def _folds(graph: onnx.GraphProto) -> bool:
    """Whether any layer computes from constants and shapes alone."""
    constant = {tensor.name for tensor in graph.initializer}
    return any(node.op_type in ("Shape", "Size", "Constant") or read_names(node) <= constant for node in graph.node)


def _compare(state: StepState) -> None:
    """Run original and result on one random input; they must agree.

    Raises:
        ModelError: ONNX Runtime cannot run the result, or it computes something else.
    """
    generator = np.random.default_rng(0)
    feeds = {
        value.name: drawn_float32(
            lambda count: generator.uniform(-1, 1, count), [d.dim_value for d in value.type.tensor_type.shape.dim]
        )
        for value in state.proto.graph.input
    }
    actual: Sequence[NDArray[Any]] = _guarded(
        "ONNX Runtime cannot run it", state, lambda proto: _run(proto, state.weights, feeds)
    )
    if _same_network(state):
        return
    try:
        expected = _run(state.original, state.original_weights, feeds)
    except MemoryError:
        raise
    except Exception:
        return  # ONNX Runtime does not know every old or new operator set that conversion knows
    names = [value.name for value in state.original.graph.output]
    by_name = dict(zip(names, expected, strict=True))
    expected = [by_name[value.name] for value in state.proto.graph.output]  # constant ones are left out
    changed = _changed(state, expected, actual)
    if changed is not None and not _same_without_rounding(state, feeds):
        raise ModelError(
            f"output '{changed}' changes when the model is converted to operator set {opset_of(state.proto)}"
            " and simplified",
            where=state.where,
            remedy="set model.simplify to false, or export the network with operator set 17 or newer",
        )


def _changed(state: StepState, expected: Sequence[NDArray[Any]], actual: Sequence[NDArray[Any]]) -> str | None:
    """The first output that is not what it was."""
    for value, before, after in zip(state.proto.graph.output, expected, actual, strict=True):
        if before.dtype.kind != "f":
            same = before.shape == after.shape
        else:
            tolerance = _REPRODUCES * (1 + float(np.abs(before[np.isfinite(before)]).max(initial=0.0)))
            same = before.shape == after.shape and np.allclose(before, after, rtol=0, atol=tolerance, equal_nan=True)
        if not same:
            return str(value.name)
    return None


def _same_without_rounding(state: StepState, feeds: dict[str, NDArray[np.float32]]) -> bool:
    """Whether a quantised network rounds by the same steps, and computes the same where it is not rounded."""
    before, steps = without_rounding(state.original)
    after, kept = without_rounding(state.proto)
    if not steps or steps != kept:
        return False
    results = _run(before, state.original_weights, feeds), _run(after, state.weights, feeds)
    return _changed(state, *results) is None


def _same_network(state: StepState) -> bool:
    """Whether the tools left the layers, their operator set and every constant as they were."""
    before, after = state.original, state.proto
    return (
        state.weights is state.original_weights
        and opset_of(before) == opset_of(after)
        and list(before.graph.node) == list(after.graph.node)
        and list(before.graph.initializer) == list(after.graph.initializer)
    )


def _run_constants(state: StepState, part: onnx.ModelProto) -> Sequence[NDArray[Any]]:
    """The outputs of a part of the network that reads nothing but constants."""
    return _run(part, {t.name: state.weights[t.name] for t in part.graph.initializer if t.name in state.weights}, {})


def _run(proto: onnx.ModelProto, weights: Weights, feeds: dict[str, NDArray[np.float32]]) -> Sequence[NDArray[Any]]:
    import onnxruntime

    if has_custom_nodes(proto):
        return _run_with_custom(proto, weights, feeds)
    model = with_weights_as_inputs(proto, weights).SerializeToString()
    feeds = {**feeds, **weight_arrays(proto.graph, weights)}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.enable_cpu_mem_arena = options.enable_mem_pattern = False  # it runs once: nothing is kept for the next
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    wanted = {value.name for value in session.get_inputs()}
    return list(session.run(None, {name: array for name, array in feeds.items() if name in wanted}))


def _run_with_custom(
    proto: onnx.ModelProto, weights: Weights, feeds: dict[str, NDArray[np.float32]]
) -> Sequence[NDArray[Any]]:
    """As `_run`, where operators of ai.nnkit stand between ONNX's own."""
    inferred = infer_shapes(proto)
    put_weights(inferred.graph, weights)
    inputs = tuple(
        InputSpec(v.name, tuple(d.dim_value for d in v.type.tensor_type.shape.dim)) for v in inferred.graph.input
    )
    outputs = tuple(OutputSpec(v.name, ()) for v in inferred.graph.output)
    model = Model(inferred.SerializeToString(), LayerTags(), inputs, outputs, opset_of(inferred))
    results = FloatSession(model).run({spec.name: feeds[spec.name] for spec in inputs})
    return [results[spec.name] for spec in outputs]


def _message(error: BaseException) -> str:
    """The telling line of a tool's error, without places in its source code."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [
        line for line in lines if re.search(r"(?i)error|fail|expect|mismatch|invalid|op_type|adapter|field", line)
    ]
    line = (telling or lines or [type(error).__name__])[0]
    line = re.sub(r"\S*/\S+\.(?:h|cc|cpp|cxx)(?::\d+)?:?\s*", "", line)
    line = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ :", "", line)
    line = re.sub(r"\s+", " ", line).replace(os.getcwd(), "").strip(" :")
    return line if len(line) <= 300 else line[:297] + "..."

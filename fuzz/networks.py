"""ONNX files: bytes, attributes, shapes, operators, edges and weights damaged; imported, rewritten and lowered for a
target drawn among the installed ones.

The import's tools run in this process, without the simplifier: a process of their own for each input would take most
of the time, and what dies here is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from fuzz.damage import damaged_bytes

if TYPE_CHECKING:
    from nnkit.graph import Model

Seeds = tuple[bytes, ...]
OPTIONS: dict[str, dict[str, Any]] = {
    "ansi_c": {},
    "gap8": {},
    "onnx_qdq": {},
    "nnie": {"chip": "hi3516cv500", "outside_limits": "custom"},
    "tpu": {"chip": "bm1684x"},
}
_SIDES = (0, 1, 2, 3, 5, 7, 8, 16, 255, 4096, 1 << 16, -1, 1 << 40)
_NUMBERS = (0, 1, -1, 2, 3, 7, 255, 1 << 31, -(1 << 63), (1 << 63) - 1)
_OPS = (
    *("Relu", "Sigmoid", "Tanh", "Add", "Mul", "Sub", "Div", "Concat", "MaxPool", "AveragePool", "GlobalMaxPool"),
    *("Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Pad", "Slice", "Resize", "Clip", "Softmax", "Gemm"),
    *(
        "MatMul",
        "ConvTranspose",
        "BatchNormalization",
        "ReduceMean",
        "Split",
        "Expand",
        "LRN",
        "LeakyRelu",
        "Identity",
    ),
    *("Constant", "If", "Loop", "NoSuchOp"),
)
_NAMES = ("x", "", "??/", "a*/b", '"', "\\", "${HOME}", "../x", "\u2028", "_hp", "x_cpu", "%s", "main", "a\nb")


def seeds(folder: Path) -> Seeds:
    """Small networks that between them have most operators of the targets."""
    from onnx import TensorProto, helper, numpy_helper

    draw = np.random.default_rng(0).standard_normal

    def network(shape: Sequence[int], nodes: list[Any], weights: dict[str, Any]) -> bytes:
        given = helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))
        result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        constants = [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()]
        graph = helper.make_graph(nodes, "net", [given], [result], constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()

    def weight(*shape: int) -> Any:
        return draw(shape).astype(np.float32)

    make = helper.make_node
    ends = [make("GlobalAveragePool", ["p"], ["g"]), make("Flatten", ["g"], ["f"]), make("Gemm", ["f", "v"], ["y"])]
    plain = [
        make("Conv", ["x", "w", "b"], ["c"], name="conv", pads=[1, 1, 1, 1], strides=[2, 2]),
        make("BatchNormalization", ["c", "s", "o", "m", "k"], ["n"], name="norm"),
        make("Relu", ["n"], ["r"], name="relu"),
        make("MaxPool", ["r"], ["p"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
        *ends,
    ]
    norm = {name: np.abs(weight(4)) for name in "somk"}
    branches = [
        make("Conv", ["x", "w"], ["a"], name="left", group=1, pads=[1, 1, 1, 1]),
        make("Conv", ["x", "w"], ["c"], name="right", pads=[1, 1, 1, 1]),
        make("Add", ["a", "c"], ["s1"]),
        make("Concat", ["s1", "a"], ["t"], axis=1),
        make("Clip", ["t", "lo", "hi"], ["u"]),
        make("Resize", ["u", "", "sc"], ["y"], mode="nearest"),
    ]
    shuffle = [
        make("Pad", ["x", "pd"], ["a"]),
        make("Slice", ["a", "st", "en", "ax"], ["b1"]),
        make("Transpose", ["b1"], ["t"], perm=[0, 2, 3, 1]),
        make("Reshape", ["t", "sh"], ["q"]),
        make("Sigmoid", ["q"], ["z"]),
        make("Softmax", ["z"], ["y"], axis=1),
    ]
    grow = [
        make("ConvTranspose", ["x", "w"], ["a"], strides=[2, 2], group=1),
        make("LeakyRelu", ["a"], ["l"], alpha=0.1),
        make("ReduceMean", ["l"], ["p"], axes=[2, 3], keepdims=1),
        make("Flatten", ["p"], ["f"]),
        make("MatMul", ["f", "v"], ["y"]),
    ]
    numbers = {"pd": [0, 0, 1, 1, 0, 0, 1, 1], "st": [0, 0], "en": [6, 6], "ax": [2, 3], "sh": [1, -1]}
    return (
        network((1, 3, 8, 8), plain, {"w": weight(4, 3, 3, 3), "b": weight(4), "v": weight(4, 3), **norm}),
        network(
            (1, 2, 6, 6),
            branches,
            {"w": weight(4, 2, 3, 3), "lo": np.float32(0), "hi": np.float32(6), "sc": np.float32([1, 1, 2, 2])},
        ),
        network((1, 2, 6, 6), shuffle, {name: np.asarray(value, np.int64) for name, value in numbers.items()}),
        network((1, 4, 5, 5), grow, {"w": weight(4, 3, 2, 2), "v": weight(3, 2)}),
    )


def attempt(given: Seeds, chance: Random, folder: Path) -> None:
    """One damaged network through the import, the rewrites and the lowering."""
    from nnkit.importers import ImportOptions, import_onnx, onnx_importer

    path = folder / "net.onnx"
    data = chance.choice(given)
    path.write_bytes(damaged_bytes(data, chance) if chance.random() < 0.2 else damaged_network(data, chance))
    onnx_importer.run_steps = steps_here
    name = chance.choice(sorted(OPTIONS))
    lowered_for(name, OPTIONS[name], import_onnx(path, ImportOptions(simplify=False)).model)


def lowered_for(name: str, given: dict[str, Any], model: Model) -> None:
    """Restructure the network for a target and lower it, as a build does. given: the target's options."""
    from nnkit import rewrite
    from nnkit.target import load_target

    target = load_target(name)
    options = target.options.model_validate(given)
    names = list(dict.fromkeys([*target.default_rules, *target.legalisation(options)]))
    done = rewrite.restructure_steps(model, rewrite.resolve_steps(names, where=lambda index: "recipe"))
    target.lower(done.model, done.log, options)


def steps_here(
    model: Any, steps: Sequence[str], *, where: str, limits: object, weights: dict[str, bytes] | None = None
) -> Any:
    """As the import's process does, here: what a tool raises ends the import, and is no finding."""
    from nnkit.errors import ModelError, NnkitError
    from nnkit.graph.weights_aside import take_weights
    from nnkit.importers.tool_process import ToolResult
    from nnkit.importers.tool_steps import STEPS, StepState

    weights = take_weights(model.graph) if weights is None else weights
    original = type(model).FromString(model.SerializeToString())
    state = StepState(model, weights, original, weights, where, [])
    try:
        for step in steps:
            STEPS[step](state)
    except (NnkitError, MemoryError):
        raise
    except Exception as error:
        raise ModelError("the tools crashed on it", where=where, remedy="export it again") from error
    return ToolResult(state.proto, tuple(state.notes), state.weights)


def damaged_network(data: bytes, chance: Random) -> bytes:
    """One to three changes of the network's structure."""
    import onnx

    proto = onnx.ModelProto.FromString(data)
    graph = proto.graph
    for _ in range(chance.choice((1, 1, 2, 3))):
        kind, node = chance.randrange(9), chance.choice(graph.node)
        if kind == 0 and node.attribute:
            _change_attribute(chance.choice(node.attribute), chance)
        elif kind == 1:
            node.op_type = chance.choice(_OPS)
        elif kind == 2 and node.input:
            values = [name for each in graph.node for name in (*each.input, *each.output)]
            node.input[chance.randrange(len(node.input))] = chance.choice([*values, "", "gone"])
        elif kind == 3:
            dims = chance.choice(graph.input).type.tensor_type.shape.dim
            if dims:
                chance.choice(dims).dim_value = chance.choice(_SIDES)
            if chance.random() < 0.2:
                dims.add().dim_value = 1
        elif kind == 4 and graph.initializer:
            weight = chance.choice(graph.initializer)
            if weight.dims and chance.random() < 0.7:
                weight.dims[chance.randrange(len(weight.dims))] = chance.choice(_SIDES)
            else:
                weight.data_type = chance.randrange(24)
        elif kind == 5 and graph.initializer:
            _change_values(chance.choice(graph.initializer), chance)
        elif kind == 6 and len(graph.node) > 1:
            del graph.node[chance.randrange(len(graph.node))]
        elif kind == 7:
            graph.node.add().CopyFrom(node)
            graph.node[-1].output[0] = chance.choice(_NAMES)
        else:
            node.name = chance.choice(_NAMES)
    return bytes(proto.SerializeToString())


def _change_attribute(attribute: Any, chance: Random) -> None:
    if attribute.ints and chance.random() < 0.8:
        attribute.ints[chance.randrange(len(attribute.ints))] = chance.choice(_NUMBERS)
    elif attribute.ints:
        del attribute.ints[-1]
    elif chance.random() < 0.8:
        attribute.i = chance.choice(_NUMBERS)
        attribute.f = chance.choice((float("nan"), float("inf"), -1.0, 0.0, 1e38))
        attribute.s = chance.choice((b"", b"SAME_UPPER", b"VALID", b"linear", b"\xff"))
    else:
        attribute.type = chance.randrange(12)


def _change_values(weight: Any, chance: Random) -> None:
    """Other numbers of the same shape: NaN, infinities, zeros, far too large."""
    from onnx import TensorProto, numpy_helper

    if weight.data_location == TensorProto.EXTERNAL:
        return
    try:
        values = np.array(numpy_helper.to_array(weight))
    except (ValueError, TypeError, KeyError):  # another damage has made it none
        return
    if values.dtype.kind not in "fi" or values.dtype.itemsize < 4:
        return
    numbers = [0, 1, -1, 1e38, -1e-40, np.nan, np.inf] if values.dtype.kind == "f" else [0, 1, -1, 7, 255]
    if values.size and chance.random() < 0.7:
        values.reshape(-1)[chance.randrange(values.size)] = chance.choice(numbers)
    else:
        values = np.full_like(values, chance.choice(numbers))
    weight.CopyFrom(numpy_helper.from_array(values, weight.name))

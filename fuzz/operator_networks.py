"""Small networks of the operators that `fuzz.networks` has none of, for the C that is emitted of them."""

from __future__ import annotations

from typing import Any

import numpy as np


def operator_networks() -> dict[str, bytes]:
    """ONNX files by name: of a map, of rows, of rows by matrices that are both computed, of scores of classes, and of
    numbers of words."""
    from onnx import TensorProto, helper, numpy_helper

    draw = np.random.default_rng(1).standard_normal
    make = helper.make_node

    def network(shape: tuple[int, ...], nodes: list[Any], weights: dict[str, Any], words: bool = False) -> bytes:
        kind = TensorProto.INT64 if words else TensorProto.FLOAT
        given = helper.make_tensor_value_info("x", kind, list(shape))
        result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        constants = [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()]
        graph = helper.make_graph(nodes, "net", [given], [result], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        return bytes(model.SerializeToString())

    def weight(*shape: int) -> Any:
        return draw(shape).astype(np.float32)

    def ones(*shape: int) -> Any:
        return np.abs(weight(*shape)) + np.float32(0.5)

    picture = [
        make("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        make("InstanceNormalization", ["c", "g", "b"], ["n"], name="instance"),
        make("HardSwish", ["n"], ["h"], name="hardswish"),
        make("SpaceToDepth", ["h"], ["s"], name="to_depth", blocksize=2),
        make("Mish", ["s"], ["m"], name="mish"),
        make("DepthToSpace", ["m"], ["d"], name="to_space", blocksize=2),
        make("Softsign", ["d"], ["q"], name="softsign"),
        make("Erf", ["q"], ["y"], name="erf"),
    ]
    rows = [
        make("LayerNormalization", ["x", "g", "b"], ["n"], name="layer_norm", axis=-1),
        make("MatMul", ["n", "w"], ["m"], name="dense"),
        make("Gelu", ["m"], ["y"], name="gelu"),
    ]
    attention = [
        make("MatMul", ["x", "k"], ["keys"], name="keys"),
        make("Transpose", ["keys"], ["turned"], name="turn", perm=[0, 2, 1]),
        make("MatMul", ["x", "turned"], ["scores"], name="scores"),
        make("Softmax", ["scores"], ["share"], name="share", axis=-1),
        make("MatMul", ["share", "x"], ["mixed"], name="mix"),
        make("LayerNormalization", ["mixed", "g", "b"], ["y"], name="layer_norm", axis=-1),
    ]
    classes = [
        make("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1], strides=[2, 2]),
        make("Greater", ["c", "zero"], ["positive"], name="positive"),
        make("Mul", ["c", "slope"], ["less"], name="less"),
        make("Where", ["positive", "c", "less"], ["a"], name="choice"),
        make("LogSoftmax", ["a"], ["y"], name="log_softmax", axis=1),
    ]
    words = [
        make("Gather", ["table", "x"], ["e"], name="embedding", axis=0),
        make("LayerNormalization", ["e", "g", "b"], ["n"], name="layer_norm", axis=-1),
        make("MatMul", ["n", "w"], ["y"], name="dense"),
    ]
    row = {"g": ones(6), "b": weight(6)}
    return {
        "picture": network((1, 3, 6, 6), picture, {"w": weight(4, 3, 3, 3), "g": ones(4), "b": weight(4)}),
        "rows": network((1, 5, 6), rows, {**row, "w": weight(6, 7)}),
        "attention": network((1, 5, 6), attention, {**row, "k": weight(6, 6)}),
        "classes": network(
            (1, 3, 8, 8), classes, {"w": weight(4, 3, 3, 3), "zero": np.float32(0), "slope": np.float32(0.1)}
        ),
        "words": network((1, 5), words, {**row, "table": weight(9, 6), "w": weight(6, 3)}, words=True),
    }

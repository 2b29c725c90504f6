"""Networks as exporters write them, through whole builds: the artifact agrees with its Program, and that with float.

The C of GAP8 is compiled for this host and has to give the Program's integers; the QDQ model runs in ONNX Runtime,
which is also what the accuracy is measured against.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks.zoo.exported import Exported
from benchmarks.zoo.rows import row


class _Net:
    """Nodes and constants; a value is its name."""

    def __init__(self, *shape: int) -> None:
        self.shape, self.random = shape, np.random.default_rng(3)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, array: object, kind: type = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array, kind), name))
        return name

    def ints(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: object) -> str:
        names = [f"v{len(self.nodes)}" + (f"_{index}" if index else "") for index in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=f"n{len(self.nodes)}", **attributes))
        return names[0]

    def conv(self, x: str, outputs: int, inputs: int, kernel: int = 1, **attributes: object) -> str:
        weight = self.random.normal(0, (inputs * kernel * kernel) ** -0.5, (outputs, inputs, kernel, kernel))
        return self.op("Conv", x, self.constant(weight), **attributes)

    def save(self, folder: Path, outputs: Sequence[str]) -> Exported:
        """The file, with inputs to calibrate and verify on."""
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info("input", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            self.constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        onnx.save(model, folder / "net.onnx")
        for number in range(4):
            values = np.random.default_rng(number % 3).normal(0, 0.9 if number == 3 else 1, self.shape)
            np.save(folder / f"{'verify_' if number == 3 else ''}input_{number}.npy", values.astype(np.float32))
        return Exported(folder / "net.onnx", ("input",))


def _functions(net: _Net) -> list[str]:
    """Every function by table, each an output; those of positive numbers behind an Exp."""
    x = net.conv("input", 4, 2)
    kinds = ("Sigmoid", "Tanh", "Gelu", "Erf", "Softplus", "Softsign", "Mish", "Elu", "Abs")
    outputs = [net.op(kind, x) for kind in kinds] + [net.op("Gelu", x, approximate="tanh")]
    positive = net.op("Exp", x)
    outputs += [positive, net.op("Sqrt", positive), net.op("Log", net.op("Softplus", x))]
    outputs += [net.op("Reciprocal", net.op("Sigmoid", x)), net.op("Pow", x, net.constant(2.0))]
    return outputs


def _gathers(net: _Net) -> list[str]:
    """Gather that picks evenly, unevenly, a row, or reshapes; a function in place whose value is an output too."""
    x = net.op("Sigmoid", net.conv("input", 4, 2, 3, pads=[1] * 4))
    even = net.op("Gather", x, net.ints(0, 2, 4, 6), axis=2)
    uneven = net.op("Gather", x, net.ints(5, 0, 0, 3), axis=3)
    row_ = net.op("Gather", x, net.constant(3, np.int64), axis=2)
    flat = net.op(
        "Gather", net.op("Reshape", x, net.ints(1, -1)), net.constant([[0, 64], [128, 192]], np.int64), axis=1
    )
    return [x, net.op("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4), even, uneven, row_, flat]


def _shapes(net: _Net) -> list[str]:
    """Enlarging, padding, pixels from channels, a mean over an axis, arithmetic of computed values, a map that gates
    all channels, and a layer between Transposes to channels-last and back."""
    x = net.conv("input", 4, 2)
    up = net.op("Resize", x, "", net.constant([1, 1, 2, 2]), mode="linear")
    padded = net.op("Pad", x, net.ints(0, 0, 2, 1, 0, 0, 1, 2), mode="reflect")
    pixels = net.op("DepthToSpace", x, blocksize=2, mode="CRD")
    mean = net.op("ReduceMean", x, net.ints(1), keepdims=0)
    y = net.op("Tanh", net.conv("input", 4, 2))
    scaled = net.op("Add", net.op("Mul", x, net.constant(net.random.normal(0, 1, (8, 8)))), net.constant(0.5))
    gated = net.op("Mul", x, net.op("Sigmoid", net.conv("input", 1, 2)))
    last = net.op("Add", net.op("Transpose", x, perm=[0, 2, 3, 1]), net.constant([0.1, 0.2, -0.3, 0.4]))
    back = net.conv(net.op("Transpose", net.op("Relu", last), perm=[0, 3, 1, 2]), 2, 4)
    rows = net.op("Pad", net.op("Reshape", x, net.ints(1, 4, 64)), net.ints(0, 1, 0, 0, 0, 0))
    return [
        up,
        padded,
        pixels,
        mean,
        scaled,
        gated,
        back,
        rows,
        *(net.op(kind, x, y) for kind in ("Sub", "Max", "Min")),
    ]


def _masks(net: _Net) -> list[str]:
    """The peaks of a map, and what is above a number."""
    x = net.op("Sigmoid", net.conv("input", 4, 2))
    pooled = net.op("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4)
    peaks = net.op("Cast", net.op("Equal", pooled, x), to=TensorProto.FLOAT)
    above = net.op("Cast", net.op("Greater", x, net.constant(0.5)), to=TensorProto.FLOAT)
    return [net.op("Mul", x, peaks), above]


def _rows(net: _Net) -> list[str]:
    """Layers over time, a product of many rows, and these normalised by batch statistics."""
    steps = net.op("Reshape", net.conv("input", 4, 2), net.ints(1, 8, 32))
    conv = net.op("Conv", steps, net.constant(net.random.normal(0, 0.2, (6, 8, 3))), pads=[1, 1], strides=[2])
    pooled = net.op("MaxPool", net.op("Relu", conv), kernel_shape=[2], strides=[2])
    turned = net.op("Transpose", pooled, perm=[0, 2, 1])
    product = net.op("MatMul", turned, net.constant(net.random.normal(0, 0.4, (6, 5))))
    flat = net.op("Reshape", product, net.ints(8, 5))
    parameters = [net.constant(net.random.uniform(0.5, 1.5, 5)) for _ in range(4)]
    normal = net.op("Reshape", net.op("BatchNormalization", flat, *parameters), net.ints(1, 8, 5))
    return [net.op("Add", product, net.constant(net.random.normal(0, 1, 5))), conv, normal]


def _attention(net: _Net) -> list[str]:
    """Heads as a batch: parts of it, products of computed matrices, Softmax with PyTorch's guard against NaN,
    LayerNormalization, Gemm of rows, a matrix that heads share."""
    tokens = net.op("Transpose", net.op("Reshape", net.conv("input", 12, 2), net.ints(12, 1, 64)), perm=[2, 1, 0])
    several = net.op("Reshape", tokens, net.ints(64, 1, 3, 4))
    heads = net.op("Transpose", net.op("Reshape", several, net.ints(64, 3, 2, 2)), perm=[1, 2, 0, 3])
    first = net.op("Split", heads, net.ints(1, 1, 1), axis=0, outputs=3)
    q, k, v = (net.op("Squeeze", f"{first}{part}", net.ints(0)) for part in ("", "_1", "_2"))
    scores = net.op("MatMul", net.op("Mul", q, net.constant(0.5)), net.op("Transpose", k, perm=[0, 2, 1]))
    weights = net.op("Softmax", scores, axis=-1)
    weights = net.op("Where", net.op("IsNaN", weights), net.constant(0.0), weights)
    mixed = net.op("MatMul", weights, v)
    one = net.op("Slice", net.op("Transpose", k, perm=[0, 2, 1]), net.ints(0), net.ints(1), net.ints(0))
    shared = net.op("MatMul", q, one)
    rows = net.op("Reshape", net.op("Transpose", mixed, perm=[1, 0, 2]), net.ints(64, 4))
    product = net.op(
        "Gemm", rows, net.constant(net.random.normal(0, 0.5, (4, 6))), net.constant(net.random.normal(0, 1, 6))
    )
    gain, offset = (net.constant(net.random.normal(1, 0.3, 6)) for _ in range(2))
    normal = net.op("LayerNormalization", product, gain, offset, axis=-1)
    return [
        net.op("Reshape", normal, net.ints(1, 64, 6)),
        net.op("Reshape", shared, net.ints(1, 128, 64)),
        net.op("Softmax", net.op("Reshape", product, net.ints(1, 8, 8, 6)), axis=2),
    ]


def _normal(net: _Net) -> list[str]:
    """Normalised channels and groups, softmax of channels, a vector of length one, one number an image."""
    x = net.conv("input", 4, 2)
    gain, offset = (net.constant(net.random.normal(1, 0.3, 4)) for _ in range(2))
    instance = net.op("InstanceNormalization", x, gain, offset)
    ones, zeros = net.constant(np.ones(2)), net.constant(np.zeros(2))
    group = net.op("InstanceNormalization", net.op("Reshape", x, net.ints(1, 2, -1)), ones, zeros)
    back = net.op(
        "Mul", net.op("Reshape", group, net.ints(1, 4, 8, 8)), net.constant(net.random.normal(1, 0.3, (4, 1, 1)))
    )
    flat = net.op("Flatten", net.op("GlobalAveragePool", instance))
    length = net.op("Clip", net.op("ReduceL2", flat, net.ints(1)), net.constant(1e-3), "")
    div = net.op("Div", flat, net.op("Expand", length, net.ints(1, 4)))
    number = net.op("ReduceMean", flat, net.ints(1), keepdims=0)
    return [instance, back, net.op("Softmax", x, axis=1), div, number]


def _recurrent(kind: str) -> Callable[[_Net], list[str]]:
    def make(net: _Net) -> list[str]:
        """Both ways over four steps of 32 numbers."""
        gates = {"GRU": 3, "LSTM": 4}[kind]
        steps = net.op("Reshape", net.conv("input", 2, 2), net.ints(4, 1, 32))
        weights = [net.constant(net.random.normal(0, 0.25, (2, gates * 5, size))) for size in (32, 5)]
        bias = net.constant(net.random.normal(0, 0.2, (2, 2 * gates * 5)))
        before = {"linear_before_reset": 1} if kind == "GRU" else {}
        every = net.op(kind, steps, *weights, bias, outputs=2, hidden_size=5, direction="bidirectional", **before)
        return [net.op("Reshape", every, net.ints(1, 4, 10)), net.op("Reshape", f"{every}_1", net.ints(1, 10))]

    return make


NETWORKS: dict[str, Callable[[_Net], list[str]]] = {
    "functions": _functions,
    "gathers": _gathers,
    "shapes": _shapes,
    "rows": _rows,
    "attention": _attention,
    "normal": _normal,
    "gru": _recurrent("GRU"),
    "lstm": _recurrent("LSTM"),
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(("target", "least_db"), [("gap8", 50.0), ("onnx_qdq", 25.0)])
def test_build(tmp_path: Path, name: str, target: str, least_db: float) -> None:
    net = _Net(1, 2, 8, 8)
    exported = net.save(tmp_path, NETWORKS[name](net))
    made = row("net", "by hand", target, exported, tmp_path / "out", compile_tpu=False)
    assert (made["status"], made["mismatches"]) == ("ok", 0), made["reason"]
    assert float(str(made["sqnr_db"])) > least_db


def test_masks_are_exact_in_16_bits(tmp_path: Path) -> None:
    """One number of 512 chosen otherwise than in float leaves less than 50 dB."""
    net = _Net(1, 2, 8, 8)
    made = row("net", "by hand", "gap8", net.save(tmp_path, _masks(net)), tmp_path / "out", compile_tpu=False)
    assert (made["status"], made["mismatches"]) == ("ok", 0), made["reason"]
    assert float(str(made["sqnr_db"])) > 50


def test_float_build_of_recurrent_layers_shuffled_pixels_and_one_number(tmp_path: Path) -> None:
    net = _Net(1, 2, 8, 8)
    recurrent = _recurrent("GRU")(net)
    x = net.op("HardSwish", net.conv("input", 4, 2))
    number = net.op("ReduceMean", x, net.ints(1, 2, 3), keepdims=0)
    exported = net.save(tmp_path, [*recurrent, x, net.op("DepthToSpace", x, blocksize=2), number])
    made = row("net", "by hand", "ansi_c", exported, tmp_path / "out", compile_tpu=False)
    assert (made["status"], made["mismatches"]) == ("ok", 0), made["reason"]
    assert float(str(made["sqnr_db"])) > 100

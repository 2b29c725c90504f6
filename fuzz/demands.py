"""Networks of few bytes that ask for much: windows of thousands around few pixels, dilations and strides of 2^62,
names of up to a megabyte, chains of thousands of layers; in ONNX, Caffe and TFLite, imported and lowered.

Nothing in them is damaged: each is a network by the rules of its format.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from fuzz.networks import OPTIONS, lowered_for, steps_here

_SIDE = 8
_KERNELS = (1, 3, 8, 100, 300, 1000, 2000, 1 << 16, 1 << 31, 1 << 40, 1 << 62)
_STEPS = (1, 2, 255, 4096, 1 << 16, 1 << 20, 1 << 31, 1 << 40, 1 << 62)
_LAYERS = (1, 30, 300, 2000, 20_001, 25_000)
_LETTERS = (1, 300, 10_000, 65_536, 65_537, 900_000)
_POOLS = ("MaxPool", "AveragePool", "LpPool", "Conv", "ConvTranspose", "LRN")
_CHAINED = (("Relu",), ("Sigmoid",), ("Relu", "Sigmoid"), ("Transpose",), ("Neg", "Relu"), ("Softmax", "Tanh"))


def seeds(folder: Path) -> None:
    """There are none: every network is drawn."""


def attempt(given: None, chance: Random, folder: Path) -> None:
    """One network through the import, the rewrites and the lowering."""
    from nnkit.importers import ImportOptions, import_caffe, import_onnx, onnx_importer
    from nnkit.importers.tflite_importer import import_tflite

    onnx_importer.run_steps = steps_here
    form, path = chance.randrange(4), folder / "net"
    if form == 0:
        path.with_suffix(".prototxt").write_text(_prototxt(chance))
        path.with_suffix(".caffemodel").write_bytes(b"\n\x01n")
        model = import_caffe(path.with_suffix(".prototxt"), path.with_suffix(".caffemodel")).model
    elif form == 1:
        model = import_tflite(_tflite(chance, path.with_suffix(".tflite"))).model
    else:
        path.with_suffix(".onnx").write_bytes(_onnx(chance))
        model = import_onnx(path.with_suffix(".onnx"), ImportOptions(simplify=False)).model
    name = chance.choice(sorted(OPTIONS))
    lowered_for(name, OPTIONS[name], model)


def _window(chance: Random) -> tuple[list[int], list[int], list[int], list[int]]:
    """Kernel, padding, strides and dilations of two directions, which fit together more often than not."""
    kernel = [chance.choice(_KERNELS) for _ in range(2)]
    pads = [chance.choice((0, max(0, side - _SIDE), side // 2, side - 1)) for side in kernel]
    others = [[1, 1] if chance.random() < 0.6 else [chance.choice(_STEPS) for _ in range(2)] for _ in range(2)]
    return kernel, pads, *others


def _onnx(chance: Random) -> bytes:
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    weights = []
    if chance.random() < 0.6:
        op_type = chance.choice(_POOLS)
        kernel, pads, strides, dilations = _window(chance)
        attributes: dict[str, Any] = {"strides": strides, "pads": pads * 2, "kernel_shape": kernel}
        attributes |= {"dilations": dilations} if op_type not in ("AveragePool", "LpPool") else {}
        if "Conv" in op_type:
            attributes["kernel_shape"] = [min(side, 3) for side in kernel]
            weight = np.ones((1, 1, *attributes["kernel_shape"]), np.float32)
            weights = [numpy_helper.from_array(weight, "w")]
        elif op_type == "LRN":
            attributes = {"size": kernel[0]}
        nodes = [helper.make_node(op_type, ["x", *(w.name for w in weights)], ["v0"], name="n", **attributes)]
    else:
        layers, kinds = chance.choice(_LAYERS), chance.choice(_CHAINED)
        ends = ["x", *(f"v{number}" for number in range(layers))]
        nodes = [helper.make_node(kinds[at % len(kinds)], [ends[at]], [ends[at + 1]]) for at in range(layers)]
        if chance.random() < 0.5:
            nodes[-1].name = "a" * chance.choice(_LETTERS)
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, _SIDE, _SIDE])
    made = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "net", [given], [made], weights)
    return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())


def _prototxt(chance: Random) -> str:
    head = f'input: "x" input_shape {{ dim: 1 dim: 1 dim: {_SIDE} dim: {_SIDE} }}\n'
    if chance.random() < 0.5:
        kernel, pads, strides, _ = _window(chance)
        window = f"kernel_h: {kernel[0]} kernel_w: {kernel[1]} pad_h: {pads[0]} pad_w: {pads[1]}"
        window += f" stride_h: {strides[0]} stride_w: {strides[1]} pool: {chance.choice(('MAX', 'AVE'))}"
        return f'{head}layer {{ name: "p" type: "Pooling" bottom: "x" top: "y" pooling_param {{ {window} }} }}'
    layers, long = chance.choice(_LAYERS), "a" * chance.choice(_LETTERS)
    names = ["x", *(f"v{number}" for number in range(layers - 1)), long]
    return head + "".join(
        f'layer {{ name: "r{at}" type: "{chance.choice(("ReLU", "Sigmoid"))}" bottom: "{names[at]}" '
        f'top: "{names[at + 1]}" }}\n'
        for at in range(layers)
    )


def _tflite(chance: Random, path: Path) -> Path:
    from fuzz.tflite_files import TfliteFile

    net = TfliteFile("f4")
    value = net.input(1, _SIDE, _SIDE, 1)
    if chance.random() < 0.5:
        names = ("strideH", "strideW", "filterHeight", "filterWidth")
        window = {name: min(chance.choice(_KERNELS), (1 << 31) - 1) for name in names}
        kind = chance.choice(("MAX_POOL_2D", "AVERAGE_POOL_2D"))
        made = tuple(-(-_SIDE // window[name]) for name in names[:2])
        value = net.op(kind, [value], (1, *made, 1), "Pool2DOptions", padding=0, **window)
    else:
        for _ in range(chance.choice(_LAYERS)):
            value = net.op(chance.choice(("RELU", "LOGISTIC")), [value], (1, _SIDE, _SIDE, 1))
    return net.write(path, value)

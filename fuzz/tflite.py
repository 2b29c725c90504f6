"""TFLite files: bytes, shapes, types, operators, options, edges, scales and weights damaged; imported and lowered for
`onnx_qdq`. The import's tools run in this process, as for ONNX files.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np

from fuzz.damage import damaged_bytes
from fuzz.networks import lowered_for, steps_here
from fuzz.tflite_files import TfliteFile

Seeds = tuple[bytes, ...]
_SIDES = (0, 1, 2, 3, 5, 7, 255, 4096, -1, 1 << 30)
_NUMBERS = (0, 1, -1, 2, 3, 6, 127, 255, -(1 << 31), (1 << 31) - 1)
_KINDS = 210  # builtin operators, about; those beyond are custom ones or none


def seeds(folder: Path) -> Seeds:
    """Small networks in float, int8 and int16 that between them have most kinds of operators."""
    return tuple(_seed(TfliteFile(dtype), folder) for dtype in ("f4", "i1", "i2"))


def _seed(net: TfliteFile, folder: Path) -> bytes:
    x = net.input(1, 8, 8, 4)
    strides = {"strideH": 1, "strideW": 1}
    maps = net.op("CONV_2D", [x, *net.weights((4, 3, 3, 4), 0)], (1, 8, 8, 4), "Conv2DOptions", **strides)
    deep = net.op(
        "DEPTHWISE_CONV_2D", [maps, *net.weights((1, 3, 3, 4), 3)], (1, 8, 8, 4), "DepthwiseConv2DOptions", **strides
    )
    total = net.op("ADD", [maps, deep], (1, 8, 8, 4), "AddOptions", fusedActivationFunction=1)
    window = {"strideH": 2, "strideW": 2, "filterHeight": 2, "filterWidth": 2, "padding": 1}
    pooled = net.op("MAX_POOL_2D", [total], (1, 4, 4, 4), "Pool2DOptions", **window)
    padded = net.op("PAD", [pooled, net.pairs((0, 0), (1, 1), (1, 1), (0, 0))], (1, 6, 6, 4), "PadOptions")
    joined = net.op("CONCATENATION", [padded, padded], (1, 6, 6, 8), "ConcatenationOptions", axis=3)
    bounds = [net.ints(0, 1, 1, 0), net.ints(1, 5, 5, 4), net.ints(1, 2, 1, 1)]
    part = net.op("STRIDED_SLICE", [joined, *bounds], (1, 2, 4, 4), "StridedSliceOptions")
    turned = net.op("TRANSPOSE", [part, net.ints(0, 3, 1, 2)], (1, 4, 2, 4), "TransposeOptions")
    gate = net.op("LOGISTIC", [turned], (1, 4, 2, 4))
    rows = net.op("RESHAPE", [gate, net.ints(1, 32)], (1, 32), "ReshapeOptions")
    last = net.op("FULLY_CONNECTED", [rows, *net.weights((5, 32), 0)], (1, 5), "FullyConnectedOptions")
    shares = net.op("SOFTMAX", [last], (1, 5), "SoftmaxOptions", beta=1.0)
    mean = net.op("MEAN", [joined, net.ints(1, 2)], (1, 8), "ReducerOptions", keepDims=False)
    return net.write(folder / "net.tflite", shares, mean).read_bytes()


def attempt(given: Seeds, chance: Random, folder: Path) -> None:
    """Read a damaged file as a build does."""
    from nnkit.importers import onnx_importer
    from nnkit.importers.tflite_importer import import_tflite

    data = chance.choice(given)
    changed = damaged_bytes(data, chance) if chance.random() < 0.4 else _damaged(data, chance)
    path = folder / "net.tflite"
    path.write_bytes(changed)
    onnx_importer.run_steps = steps_here
    lowered_for("onnx_qdq", {}, import_tflite(path).model)


def _damaged(data: bytes, chance: Random) -> bytes:
    """One to three changes of the network's structure."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(bytearray(data))
    graph = model.subgraphs[0]
    for _ in range(chance.choice((1, 1, 2, 3))):
        tensor, operator, kind = chance.choice(graph.tensors), chance.choice(graph.operators), chance.randrange(9)
        if kind == 0:
            shape = np.array(tensor.shape)
            if shape.size:
                shape[chance.randrange(shape.size)] = chance.choice(_SIDES)
            tensor.shape = shape
        elif kind == 1:
            tensor.type = chance.randrange(20)
        elif kind == 2:
            code = chance.choice(model.operatorCodes)
            code.builtinCode = code.deprecatedBuiltinCode = chance.randrange(_KINDS)
            code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        elif kind == 3:
            edges = np.array(chance.choice((operator.inputs, operator.outputs)))
            edges[chance.randrange(edges.size)] = chance.choice((-1, 0, 1, 5, len(graph.tensors), 1 << 30))
            operator.inputs = edges
        elif kind == 4 and operator.builtinOptions is not None:
            names = sorted(vars(operator.builtinOptions))
            if names:
                name = chance.choice(names)
                if type(getattr(operator.builtinOptions, name)) is int:
                    setattr(operator.builtinOptions, name, chance.choice(_NUMBERS[:6]))
        elif kind == 5 and tensor.quantization is not None:
            tensor.quantization.scale = np.array(
                [chance.choice((0.0, -1.0, np.nan, np.inf, 1e-38, 1e38))], np.float32
            )
            tensor.quantization.zeroPoint = np.array([chance.choice(_NUMBERS)], np.int64)
            tensor.quantization.quantizedDimension = chance.choice((0, 1, 9))
        elif kind == 6:
            buffer = chance.choice(model.buffers)
            if buffer.data is not None and len(buffer.data):
                buffer.data = np.frombuffer(damaged_bytes(bytes(bytearray(buffer.data)), chance), np.uint8)
        elif kind == 7:
            chance.choice((graph.inputs, graph.outputs))[0] = chance.choice((0, 1, 5, -1, 1 << 30))
        else:
            tensor.name = chance.choice((b"", b"\xff", b"a\0b", b"x" * 4000, b"../x", b"t1"))
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())

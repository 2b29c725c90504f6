"""Every operator against LiteRT's reference kernels: in float within rounding, in integers within one unit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert.interpreter import OpResolverType

from benchmarks.litert import differences, integer_program, random_inputs, reference_tensors
from fuzz.tflite_files import SCALE, TfliteFile
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.importers.tflite.table import OPERATORS
from nnkit.importers.tflite_importer import import_tflite
from nnkit.simulate import simulate

SAME, VALID = 0, 1
RELU, RELU6 = 1, 3


def _conv(net: TfliteFile, padding: int = SAME, stride: int = 1, dilation: int = 1, activation: int = 0) -> int:
    x = net.input(1, 9, 7, 4)
    side = [9, 7] if padding == SAME else [9 - 2 * dilation, 7 - 2 * dilation]
    shape = (1, *(-(-each // stride) for each in side), 6)
    options = {"strideH": stride, "strideW": stride, "dilationHFactor": dilation, "dilationWFactor": dilation}
    more = {"padding": padding, "fusedActivationFunction": activation}
    return net.op("CONV_2D", [x, *net.weights((6, 3, 3, 4), 0)], shape, "Conv2DOptions", **options, **more)


def _depthwise(net: TfliteFile, multiplier: int = 1) -> int:
    x = net.input(1, 8, 8, 4)
    options = {"padding": SAME, "strideH": 2, "strideW": 2, "depthMultiplier": multiplier}
    inputs = [x, *net.weights((1, 3, 3, 4 * multiplier), 3)]
    return net.op("DEPTHWISE_CONV_2D", inputs, (1, 4, 4, 4 * multiplier), "DepthwiseConv2DOptions", **options)


def _transposed(net: TfliteFile, padding: int = SAME) -> int:
    x, side = net.input(1, 5, 4, 4), (10, 8) if padding == SAME else (11, 9)
    weight, bias = net.weights((6, 3, 3, 4), 0)
    options = {"padding": padding, "strideH": 2, "strideW": 2}
    inputs = [net.ints(1, *side, 6), weight, x, bias]
    return net.op("TRANSPOSE_CONV", inputs, (1, *side, 6), "TransposeConvOptions", **options)


def _fully_connected(net: TfliteFile, *shape: int, activation: int = 0) -> int:
    x, keep = net.input(*shape), len(shape) == 3
    inputs = [x, *net.weights((6, shape[-1]), 0)]
    options = {"fusedActivationFunction": activation, "keepNumDims": keep}
    return net.op("FULLY_CONNECTED", inputs, (*shape[:-1], 6), "FullyConnectedOptions", **options)


def _flat(net: TfliteFile) -> int:
    """Behind a convolution, whose channels TFLite has last: the weights of what follows know that order."""
    maps = _conv(net)
    rows = net.op("RESHAPE", [maps, net.ints(1, 378)], (1, 378), "ReshapeOptions", newShape=[1, 378])
    weight, bias = net.weights((5, 378), 0)
    zero = 3 if net.dtype == "i1" else 0
    return net.op("FULLY_CONNECTED", [rows, weight, bias], (1, 5), "FullyConnectedOptions", scale=(0.2, zero))


def _stored_as(net: TfliteFile, dtype: str) -> int:
    """Weights and biases of a float network as float16, or as int8 with scales of channels."""
    random = np.random.default_rng(3)
    inputs = [net.input(1, 6, 5, 4)]
    for shape in ((6, 3, 3, 4), (6,)):
        if dtype == "f2":
            stored = net.tensor(shape, "f2", random.normal(0, 0.3, shape))
        else:
            scales = random.uniform(0.001, 0.004, 6)
            stored = net.tensor(shape, "i1", random.integers(-127, 128, shape), scales, [0] * 6)
        inputs.append(net.op("DEQUANTIZE", [stored], shape, "DequantizeOptions"))
    return net.op("CONV_2D", inputs, (1, 6, 5, 6), "Conv2DOptions", padding=SAME, strideH=1, strideW=1)


def _pool(net: TfliteFile, kind: str, padding: int) -> int:
    x, side = net.input(1, 7, 7, 4), 4 if padding == SAME else 3
    options = {"padding": padding, "strideH": 2, "strideW": 2, "filterHeight": 3, "filterWidth": 3}
    return net.op(kind, [x], (1, side, side, 4), "Pool2DOptions", **options)


def _of_two(net: TfliteFile, kind: str, options: str, activation: int = 0) -> int:
    a, b = net.input(1, 5, 5, 4), net.input(1, 5, 5, 4)
    values = {"fusedActivationFunction": activation} if options else {}
    return net.op(kind, [a, b], (1, 5, 5, 4), options, scale=(0.1, 5 if net.dtype == "i1" else 0), **values)


def _gate(net: TfliteFile) -> int:
    """A factor for each channel, [1, 1, 1, C]."""
    a, b = net.input(1, 5, 5, 4), net.input(1, 1, 1, 4)
    return net.op("MUL", [a, b], (1, 5, 5, 4), "MulOptions", scale=(0.1, 5 if net.dtype == "i1" else 0))


def _of_one(
    net: TfliteFile, kind: str, options: str = "", scale: tuple[float, int] | None = None, **values: float
) -> int:
    return net.op(kind, [net.input(1, 5, 5, 4)], (1, 5, 5, 4), options, scale=scale, **values)


def _softmax(net: TfliteFile) -> int:
    scale = (1 / 256, -128) if net.dtype == "i1" else (1 / 32768, 0)
    return net.op("SOFTMAX", [net.input(1, 10)], (1, 10), "SoftmaxOptions", scale=scale, beta=1.0)


def _logistic(net: TfliteFile) -> int:
    return _of_one(net, "LOGISTIC", scale=(1 / 256, -128) if net.dtype == "i1" else (1 / 32768, 0))


def _tanh(net: TfliteFile) -> int:
    return _of_one(net, "TANH", scale=(1 / 128, 0) if net.dtype == "i1" else (1 / 32768, 0))


def _concat(net: TfliteFile, axis: int) -> int:
    parts, shape = [net.input(1, 5, 5, 4), net.input(1, 5, 5, 4)], [1, 5, 5, 4]
    shape[axis] *= 2
    return net.op("CONCATENATION", parts, shape, "ConcatenationOptions", axis=axis)


def _pad(net: TfliteFile) -> int:
    pads = net.pairs((0, 0), (1, 2), (0, 1), (0, 0))
    return net.op("PAD", [net.input(1, 5, 5, 4), pads], (1, 8, 6, 4), "PadOptions")


def _mean(net: TfliteFile, keep: bool) -> int:
    shape = (1, 1, 1, 4) if keep else (1, 4)
    inputs = [net.input(1, 5, 5, 4), net.ints(1, 2)]
    return net.op("MEAN", inputs, shape, "ReducerOptions", scale=(0.02, 7 if net.dtype == "i1" else 0), keepDims=keep)


def _transpose(net: TfliteFile) -> int:
    return net.op("TRANSPOSE", [net.input(1, 5, 6, 4), net.ints(0, 3, 1, 2)], (1, 4, 5, 6), "TransposeOptions")


def _strided(net: TfliteFile) -> int:
    inputs = [net.input(1, 6, 6, 4), net.ints(0, 1, 0, 1), net.ints(0, 6, 0, 3), net.ints(1, 2, 1, 1)]
    return net.op("STRIDED_SLICE", inputs, (1, 3, 6, 2), "StridedSliceOptions", beginMask=5, endMask=5)


def _slice(net: TfliteFile) -> int:
    inputs = [net.input(1, 6, 6, 4), net.ints(0, 1, 2, 1), net.ints(1, 3, -1, 2)]
    return net.op("SLICE", inputs, (1, 3, 4, 2), "SliceOptions")


def _split(net: TfliteFile) -> int:
    x, parts = net.input(1, 5, 5, 4), [net.tensor((1, 5, 5, 2)), net.tensor((1, 5, 5, 2))]
    axis = net.tensor((), "i4", np.array(3))
    net.outputs_of("SPLIT", [axis, x], parts, "SplitOptions", {"numSplits": 2})
    return net.op("ADD", parts, (1, 5, 5, 2), "AddOptions", scale=(0.1, 0))


def _nearest(net: TfliteFile) -> int:
    inputs = [net.input(1, 4, 4, 4), net.ints(8, 8)]
    return net.op("RESIZE_NEAREST_NEIGHBOR", inputs, (1, 8, 8, 4), "ResizeNearestNeighborOptions")


def _bilinear(net: TfliteFile, half: bool, corners: bool = False) -> int:
    inputs = [net.input(1, 4, 4, 4), net.ints(8, 8)]
    options = {"halfPixelCenters": half, "alignCorners": corners}
    return net.op("RESIZE_BILINEAR", inputs, (1, 8, 8, 4), "ResizeBilinearOptions", **options)


def _requantized(net: TfliteFile) -> int:
    """QUANTIZE of integers into others, before a sum."""
    finer = _of_one(net, "QUANTIZE", "QuantizeOptions", scale=(0.07, 11 if net.dtype == "i1" else 0))
    return net.op("ADD", [finer, finer], (1, 5, 5, 4), "AddOptions", scale=(0.1, 0))


def _depth_to_space(net: TfliteFile) -> int:
    return net.op("DEPTH_TO_SPACE", [net.input(1, 3, 3, 8)], (1, 6, 6, 2), "DepthToSpaceOptions", blockSize=2)


def _space_to_depth(net: TfliteFile) -> int:
    return net.op("SPACE_TO_DEPTH", [net.input(1, 6, 6, 2)], (1, 3, 3, 8), "SpaceToDepthOptions", blockSize=2)


def _pack(net: TfliteFile) -> int:
    return net.op("PACK", [net.input(1, 5), net.input(1, 5)], (1, 2, 5), "PackOptions", axis=1, valuesCount=2)


def _prelu(net: TfliteFile) -> int:
    slopes = net.tensor((1, 1, 4), "f4", np.array([[[0.1, 0.2, 0.3, 0.4]]]))
    return net.op("PRELU", [net.input(1, 5, 5, 4), slopes], (1, 5, 5, 4))


def _matmul(net: TfliteFile) -> int:
    inputs, options = [net.input(1, 3, 5), net.input(1, 4, 5)], {"adjX": False, "adjY": True}
    return net.op("BATCH_MATMUL", inputs, (1, 3, 4), "BatchMatMulOptions", scale=(0.3, 0), **options)


BOTH: dict[str, Callable[[TfliteFile], int]] = {
    "conv": _conv,
    "conv_valid_strided": lambda net: _conv(net, VALID, 2, activation=RELU),
    "conv_same_strided": lambda net: _conv(net, SAME, 2, activation=RELU6),
    "conv_dilated": lambda net: _conv(net, VALID, dilation=2),
    "depthwise": _depthwise,
    "depthwise_multiplied": lambda net: _depthwise(net, 2),
    "transposed": _transposed,
    "transposed_valid": lambda net: _transposed(net, VALID),
    "fully_connected": lambda net: _fully_connected(net, 1, 10),
    "fully_connected_relu": lambda net: _fully_connected(net, 1, 10, activation=RELU),
    "fully_connected_rows": lambda net: _fully_connected(net, 1, 3, 10),
    "flat": _flat,
    "max_pool": lambda net: _pool(net, "MAX_POOL_2D", VALID),
    "max_pool_same": lambda net: _pool(net, "MAX_POOL_2D", SAME),
    "average_pool": lambda net: _pool(net, "AVERAGE_POOL_2D", VALID),
    "average_pool_same": lambda net: _pool(net, "AVERAGE_POOL_2D", SAME),
    "add": lambda net: _of_two(net, "ADD", "AddOptions"),
    "add_relu": lambda net: _of_two(net, "ADD", "AddOptions", RELU),
    "mul": lambda net: _of_two(net, "MUL", "MulOptions"),
    "gate": _gate,
    "leaky_relu": lambda net: _of_one(net, "LEAKY_RELU", "LeakyReluOptions", alpha=0.1),
    "logistic": _logistic,
    "tanh": _tanh,
    "softmax": _softmax,
    "concat_channels": lambda net: _concat(net, 3),
    "concat_rows": lambda net: _concat(net, 1),
    "pad": _pad,
    "mean": lambda net: _mean(net, True),
    "mean_flat": lambda net: _mean(net, False),
    "transpose": _transpose,
    "strided_slice": _strided,
    "slice": _slice,
    "split": _split,
    "nearest": _nearest,
    "pack": _pack,
    "matmul": _matmul,
}
"""In float and in integers."""
FLOAT: dict[str, Callable[[TfliteFile], int]] = {
    "float16_weights": lambda net: _stored_as(net, "f2"),
    "int8_weights": lambda net: _stored_as(net, "i1"),
    "sub": lambda net: _of_two(net, "SUB", "SubOptions"),
    "div": lambda net: _of_two(net, "DIV", "DivOptions"),
    "maximum": lambda net: _of_two(net, "MAXIMUM", "MaximumMinimumOptions"),
    "squared_difference": lambda net: _of_two(net, "SQUARED_DIFFERENCE", "SquaredDifferenceOptions"),
    "relu": lambda net: _of_one(net, "RELU"),
    "relu6": lambda net: _of_one(net, "RELU6"),
    "elu": lambda net: _of_one(net, "ELU"),
    "hard_swish": lambda net: _of_one(net, "HARD_SWISH", "HardSwishOptions"),
    "gelu": lambda net: _of_one(net, "GELU", "GeluOptions", approximate=False),
    "abs": lambda net: _of_one(net, "ABS", "AbsOptions"),
    "square": lambda net: _of_one(net, "SQUARE", "SquareOptions"),
    "prelu": _prelu,
    "depth_to_space": _depth_to_space,
    "space_to_depth": _space_to_depth,
    "bilinear": lambda net: _bilinear(net, False),
    "bilinear_half": lambda net: _bilinear(net, True),
    "bilinear_corners": lambda net: _bilinear(net, False, True),
    "l2_normalization": lambda net: _of_one(net, "L2_NORMALIZATION", "L2NormOptions"),
    "log_softmax": lambda net: _of_one(net, "LOG_SOFTMAX", "LogSoftmaxOptions"),
}
INT8_ONLY = {"requantized": _requantized, "relu": FLOAT["relu"], "hard_swish": FLOAT["hard_swish"]}
NO_INT16 = {"transposed", "transposed_valid"}  # their biases have 64 bits, which LiteRT's schema of this op has not


APPROXIMATED = {"tanh": 2, "softmax": 16}
"""In 16 bits LiteRT interpolates in tables: units of 2^-15 by which it is off. nnkit has whole tables."""


def _all_of(cases: dict[str, Callable[[TfliteFile], int]], dtype: str, path: Path) -> dict[str, str]:
    """One file with every case beside the others; the name of each case's result."""
    net = TfliteFile(dtype)
    results = {case: write(net) for case, write in cases.items()}
    net.write(path, *results.values())
    return {case: f"t{index}" for case, index in results.items()}


def test_float(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    names = _all_of({**BOTH, **FLOAT}, "f4", path)
    given = random_inputs(path, 0)
    expected = reference_tensors(path, given, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
    model = import_tflite(path).model
    turned = (value.transpose(0, 3, 1, 2) if value.ndim == 4 else value for value in given)
    feeds = {spec.name: value for spec, value in zip(model.inputs, turned, strict=True)}
    results = FloatSession(model).run(feeds)
    for case, name in names.items():
        np.testing.assert_allclose(results[name], expected[name], rtol=2e-5, atol=2e-5, err_msg=case)


@pytest.mark.parametrize("dtype", ["i1", "i2"])
def test_integers(dtype: str, tmp_path: Path) -> None:
    cases = {**BOTH, **INT8_ONLY} if dtype == "i1" else {key: BOTH[key] for key in BOTH if key not in NO_INT16}
    path = tmp_path / "net.tflite"
    names = {name: case for case, name in _all_of(cases, dtype, path).items()}
    program = integer_program(path)
    seen = set()
    for seed in (0, 1):
        for each in differences(program, reference_tensors(path, random_inputs(path, seed))):
            case = names.get(each.op, "")
            seen.add(case)
            most = APPROXIMATED.get(case, 1) if dtype == "i2" else 1
            assert each.largest <= most, (case, each)
    assert seen >= set(cases)


def test_every_value_of_a_chain_is_compared(tmp_path: Path) -> None:
    """Also those within, so that no op works on what the ops before it made."""
    net = TfliteFile("i1")
    x = net.input(1, 6, 5, 4)
    first = net.op(
        "CONV_2D", [x, *net.weights((4, 3, 3, 4), 0)], (1, 4, 3, 4), "Conv2DOptions", padding=1, strideH=1, strideW=1
    )
    last = net.op(
        "CONV_2D",
        [first, *net.weights((4, 3, 3, 4), 0)],
        (1, 2, 1, 4),
        "Conv2DOptions",
        padding=1,
        strideH=1,
        strideW=1,
    )
    path = net.write(tmp_path / "net.tflite", last)
    compared = differences(integer_program(path), reference_tensors(path, random_inputs(path, 0)))
    assert [each.values for each in compared] == [4 * 3 * 4, 2 * 1 * 4]
    assert max(each.largest for each in compared) <= 1


@pytest.mark.parametrize("case", list(APPROXIMATED))
def test_where_litert_approximates_nnkit_is_nearer(case: str, tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    name = _all_of({case: BOTH[case]}, "i2", path)[case]
    (given,) = random_inputs(path, 0)
    real = given.astype(np.float64) * SCALE["i2"]
    powers = np.exp(real - real.max())
    truth = (powers / powers.sum() if case == "softmax" else np.tanh(real)) * 2**15
    program = integer_program(path)
    stored = given.transpose(0, 3, 1, 2) if given.ndim == 4 else given
    ours = simulate(program, {program.inputs[0]: stored.reshape(program.tensors[program.inputs[0]].shape)})[name]
    truth = (truth.transpose(0, 3, 1, 2) if truth.ndim == 4 else truth).reshape(ours.shape)
    theirs = reference_tensors(path, [given])[name].reshape(ours.shape)
    kept = np.clip(truth, -(2**15), 2**15 - 1)
    assert np.abs(ours - kept).max() <= 1 < np.abs(theirs - kept).max()


def test_the_table_names_the_schema_s_operators() -> None:
    from ai_edge_litert import schema_py_generated as schema

    own = {"RELU_0_TO_1"}
    assert {kind for kind in OPERATORS if not hasattr(schema.BuiltinOperator, kind)} <= own


def test_scales_of_biases_lie_along_their_one_axis(tmp_path: Path) -> None:
    """Converters of 2019 wrote axis 3, that of a depthwise weight, for its biases, too; LiteRT refuses that today."""
    net = TfliteFile("i1")
    last = _depthwise(net)
    right = net.write(tmp_path / "right.tflite", last)
    net.tensors[2].quantization.quantizedDimension = 3
    old = net.write(tmp_path / "old.tflite", last)
    compared = differences(integer_program(old), reference_tensors(right, random_inputs(right, 0)))
    assert [each.kind for each in compared]
    assert max(each.largest for each in compared) <= 1


def test_a_published_network_of_float16_weights(shared_dir: Path) -> None:
    path = shared_dir / "models" / "public" / "mp_face_detection_short_range.tflite"
    (given,) = random_inputs(path, 0)
    model = import_tflite(path).model
    results = FloatSession(model).run({model.inputs[0].name: given.transpose(0, 3, 1, 2)})
    expected = reference_tensors(path, [given], OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
    for spec in model.outputs:
        largest = np.abs(expected[spec.name]).max()
        np.testing.assert_allclose(results[spec.name], expected[spec.name], rtol=0, atol=1e-5 * largest)


@pytest.mark.parametrize("blocks", [False, True])
def test_weights_that_are_stored_without_their_zeros(blocks: bool, tmp_path: Path) -> None:
    """Compressed rows of numbers, or of blocks of four."""
    from ai_edge_litert import schema_py_generated as schema

    random, side = np.random.default_rng(5), 4 if blocks else 1
    kept = random.random((6, 8 // side)) < 0.4
    dense = random.normal(0, 1, (6, 8)) * np.repeat(kept, side, axis=1)
    net = TfliteFile("f4")
    x = net.input(1, 8)
    stored = net.tensor((6, 8), "f4", dense[np.repeat(kept, side, axis=1)])
    levels = [schema.DimensionMetadataT() for _ in range(3 if blocks else 2)]
    levels[0].denseSize, levels[1].format = 6, 1
    levels[1].arraySegmentsType = levels[1].arrayIndicesType = schema.SparseIndexVector.Uint8Vector
    levels[1].arraySegments, levels[1].arrayIndices = schema.Uint8VectorT(), schema.Uint8VectorT()
    levels[1].arraySegments.values = np.cumsum([0, *kept.sum(axis=1)]).astype(np.uint8)
    levels[1].arrayIndices.values = np.nonzero(kept)[1].astype(np.uint8)
    sparsity = schema.SparsityParametersT()
    sparsity.traversalOrder, sparsity.dimMetadata = list(range(len(levels))), levels
    if blocks:
        levels[2].denseSize, sparsity.blockMap = side, [1]
    net.tensors[stored].sparsity = sparsity
    weights = net.op("DENSIFY", [stored], (6, 8), "DensifyOptions")
    last = net.op("FULLY_CONNECTED", [x, weights], (1, 6), "FullyConnectedOptions")
    path = net.write(tmp_path / "net.tflite", last)
    (given,) = random_inputs(path, 0)
    model = import_tflite(path).model
    (found,) = FloatSession(model).run({model.inputs[0].name: given}).values()
    np.testing.assert_allclose(found, given @ dense.T, rtol=1e-5, atol=1e-5)
    expected = list(reference_tensors(path, [given], OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES).values())[-1]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)

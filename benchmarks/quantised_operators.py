"""Which quantised operators give ONNX Runtime's integers exactly, which within a unit: docs/quantised_operators.md.

    python -m benchmarks.quantised_operators [--json] > docs/quantised_operators.md

Networks of one operator, quantised by ONNX Runtime's own quantiser in QDQ and in QOperator form, are read as any
quantised network is; their integer program, which the C of `ansi_c` equals, is compared with ONNX Runtime value by
value. In QDQ form it computes as the file says, without fusions; of QOperator form its 8-bit kernels are those that
do not saturate. Operators that its quantiser takes only behind another one stand behind a 1x1 convolution.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from benchmarks.table import show
from nnkit.calibrate.stats import CalibrationStats
from nnkit.errors import NnkitError
from nnkit.importers import ImportOptions, import_onnx
from nnkit.program.affine import AffineTensor
from nnkit.quantize.affine import AffineScheme, quantize_affine
from nnkit.quantize.affine.quantized_network import lower_quantized
from nnkit.simulate import simulate

FORMS = ("QDQ", "QOperator")
_CALIBRATED, _COMPARED = 4, 60
_HEAD = """# Operators of quantised networks

This page is generated from measurements: `python -m benchmarks.quantised_operators`. A test measures every row again.

Networks of one operator, as ONNX Runtime's quantiser writes them in 8 bits (some behind a 1x1 convolution), against
ONNX Runtime on the same integers: `exact` where every value was equal, `one unit` where some lay one unit of the
result's scale beside it, `float` where its quantiser leaves the operator in float, empty where nnkit refuses it.
Where a sum is brought to its result's scale, ONNX Runtime rounds a float half to even and nnkit an integer product
half up, so that values at a half may differ; functions from tables are worked out in double precision, and a constant
that is added is kept in 64ths of the other operand's scale. On x86 processors without VNNI ONNX Runtime's
QLinearMatMul saturates with signed weights, whatever its session is told, so that constant matrices are unsigned
here. `exact` is of the values that were tried, {values} for each entry.

| operator | QDQ | QOperator |
|---|---|---|
"""


@dataclass(frozen=True)
class Case:
    """A network of one operator. constants: its other inputs, in order. second: whether it reads two inputs.

    behind: whether a convolution stands before it. unsigned: whether weights are.
    """

    name: str
    kind: str
    constants: tuple[NDArray[Any], ...] = ()
    second: bool = False
    shape: tuple[int, ...] = (1, 8, 14, 14)
    attributes: Mapping[str, Any] | None = None
    behind: bool = False
    unsigned: bool = False


def _weights(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(5).normal(0, 0.3, shape).astype(np.float32)


def _integers(*values: int) -> NDArray[np.int64]:
    return np.array(values, np.int64)


_WINDOW = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
CASES = (
    Case("Conv", "Conv", (_weights(12, 8, 3, 3), _weights(12)), attributes=_WINDOW),
    Case("Conv, depthwise", "Conv", (_weights(8, 1, 3, 3), _weights(8)), attributes=_WINDOW | {"group": 8}),
    Case(
        "BatchNormalization",
        "BatchNormalization",
        (_weights(8), _weights(8), _weights(8), np.abs(_weights(8)) + np.float32(0.5)),
    ),
    Case("Gemm", "Gemm", (_weights(40, 64), _weights(40)), shape=(1, 64), attributes={"transB": 1}),
    Case("MatMul", "MatMul", second=True, shape=(1, 32, 32)),
    Case("MatMul, constant, of many rows", "MatMul", (_weights(64, 40),), shape=(1, 12, 64), unsigned=True),
    Case("Add", "Add", second=True),
    Case("Add, constant", "Add", (_weights(1, 12, 64),), shape=(1, 12, 64)),
    Case("Mul", "Mul", second=True),
    Case("Mul, constant", "Mul", (_weights(1),), shape=(1, 12, 64)),
    Case("MaxPool", "MaxPool", attributes=_WINDOW | {"strides": [2, 2]}, behind=True),
    Case("AveragePool", "AveragePool", attributes={"kernel_shape": [2, 2], "strides": [2, 2]}, behind=True),
    Case("GlobalAveragePool", "GlobalAveragePool", shape=(1, 64, 7, 7)),
    Case("Concat", "Concat", second=True, attributes={"axis": 1}),
    Case("Concat, constant", "Concat", (_weights(1, 1, 64),), shape=(1, 12, 64), attributes={"axis": 1}),
    Case("Relu", "Relu", behind=True),
    Case("LeakyRelu", "LeakyRelu", attributes={"alpha": 0.1}),
    Case("Sigmoid", "Sigmoid"),
    Case("Softmax", "Softmax", shape=(1, 12, 64), attributes={"axis": -1}),
    Case("LayerNormalization", "LayerNormalization", (_weights(64), _weights(64)), shape=(1, 12, 64)),
    Case("Reshape", "Reshape", (_integers(1, 4, 28, 14),), behind=True),
    Case("Transpose", "Transpose", attributes={"perm": [0, 2, 1, 3]}, behind=True),
    Case(
        "Resize, nearest",
        "Resize",
        attributes={"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        behind=True,
    ),
)


@dataclass(frozen=True)
class Measured:
    """How far values are apart, in units; how many were compared. refused: why there is nothing to compare."""

    largest: int = 0
    values: int = 0
    refused: str = ""
    in_float: bool = False

    @property
    def word(self) -> str:
        """Of the table."""
        if self.in_float:
            return "float"
        if self.refused:
            return ""
        return {0: "exact", 1: "one unit"}.get(self.largest, f"{self.largest} units")


def measured(case: Case, form: str, folder: Path) -> Measured:
    """The operator in this form."""
    path = folder / f"{form}.onnx"
    try:
        _quantised(case, form, path)
        if _stays_in_float(case, form, path):
            return Measured(in_float=True)
        model = import_onnx(path, ImportOptions(simplify=False)).model
        scheme = AffineScheme(bias_correction=False)
        program = quantize_affine(lower_quantized(model), CalibrationStats({}, "formats", 0, ""), scheme)
    except NnkitError as error:
        return Measured(refused=str(error))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.x64quantprecision", "1")
    if form == "QDQ":
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    largest = values = 0
    for given in _inputs(case, 100, _COMPARED):
        stored = {
            name: program.tensors[name].format.quantize(array.reshape(program.tensors[name].shape))
            for name, array in given.items()
        }
        ours, theirs = simulate(program, stored), session.run(list(program.outputs), dict(given))
        for name, real in zip(program.outputs, theirs, strict=True):
            tensor = program.tensors[name]
            if not isinstance(tensor, AffineTensor):
                return Measured(refused="its result is no integer")
            units = np.rint(real.reshape(tensor.shape) / tensor.scale) + tensor.zero_point
            largest = max(largest, int(np.abs(ours[name].astype(np.int64) - units).max()))
            values += units.size
    return Measured(largest, values)


def _stays_in_float(case: Case, form: str, path: Path) -> bool:
    """In QOperator form an operator of integers has another name, but for those that move them."""
    if form == "QDQ" or case.kind in ("MaxPool", "Reshape", "Transpose", "Resize"):
        return False
    return any(node.op_type == case.kind for node in onnx.load(path).graph.node)


def _inputs(case: Case, seed: int, count: int) -> Iterator[dict[str, NDArray[np.float32]]]:
    names = ("x", "z") if case.second else ("x",)
    for index in range(count):
        rng = np.random.default_rng([seed, index])
        yield {name: rng.normal(size=case.shape).astype(np.float32) for name in names}


def _quantised(case: Case, form: str, path: Path) -> None:
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._inputs = _inputs(case, 7, _CALIBRATED)

        def get_next(self) -> dict[str, NDArray[np.float32]] | None:
            return next(self._inputs, None)

    constants = list(case.constants)
    inputs = ["x", *(["z"] if case.second else []), *(f"c{index}" for index in range(len(constants)))]
    if case.kind == "Resize":
        constants, inputs = [np.array([1, 1, 2, 2], np.float32)], ["x", "", "c0"]
    before = []
    if case.behind:
        constants.append(_weights(8, 8, 1, 1))
        before = [helper.make_node("Conv", ["x", f"c{len(constants) - 1}"], ["v"], name="before")]
    read = ["v" if name == "x" and case.behind else name for name in inputs]
    node = helper.make_node(case.kind, read, ["y"], name="node", **(case.attributes or {}))
    real = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, case.shape) for name in inputs if name in ("x", "z")
    ]
    graph = helper.make_graph(
        [*before, node],
        "one",
        real,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, f"c{index}") for index, array in enumerate(constants)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    plain = path.with_name("float.onnx")
    onnx.save(onnx.shape_inference.infer_shapes(model), plain)
    logging.disable(logging.WARNING)
    try:
        quantize_static(
            plain,
            path,
            Reader(),
            quant_format=QuantFormat[form],
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QUInt8 if case.unsigned else QuantType.QInt8,
        )
    finally:
        logging.disable(logging.NOTSET)


def rows() -> list[dict[str, Any]]:
    """A row for each operator."""
    table = []
    for case in CASES:
        row: dict[str, Any] = {"operator": case.name}
        for form in FORMS:
            with tempfile.TemporaryDirectory(prefix="nnkit-quantised-") as folder:
                each = measured(case, form, Path(folder))
            row |= {form: each.word, f"{form} values": each.values, f"{form} refused": each.refused}
        table.append(row)
    return table


def page(table: Sequence[Mapping[str, Any]]) -> str:
    """The page of the docs."""
    counts = [row[f"{form} values"] for row in table for form in FORMS if row[f"{form} values"]]
    head = _HEAD.format(values=f"{min(counts):,} to {max(counts):,}")
    return head + "".join(f"| {row['operator']} | {row['QDQ']} | {row['QOperator']} |\n" for row in table)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quantised_operators")
    parser.add_argument("--json", action="store_true")
    table = rows()
    if parser.parse_args().json:
        show(table, as_json=True)
    else:
        sys.stdout.write(page(table))


if __name__ == "__main__":
    main()

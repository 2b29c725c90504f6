"""ONNX -> Top MLIR -> the vendor's compiler -> its chip model, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from nnkit.calibrate.stats import ValueRange
from nnkit.errors import ModelError, UsageError
from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec
from nnkit_tpu.chip_model import run_on_chip_model
from nnkit_tpu.compile import CompileOptions, compile_graph
from nnkit_tpu.lowering import lower
from nnkit_tpu.toolchain import Toolchain


def _network() -> Model:
    r = np.random.default_rng(7)
    weights = {
        "w1": r.normal(0, 0.3, (16, 3, 3, 3)),
        "b1": r.normal(0, 0.1, 16),
        "w2": r.normal(0, 0.4, (16, 1, 3, 3)),
        "w3": r.normal(0, 0.2, (16, 16, 1, 1)),
        "wf": r.normal(0, 0.2, (32, 10)),
        "bf": r.normal(0, 0.1, 10),
        "shape": np.array([1, 32]),
    }
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", ["c1"], ["r1"]),
        node("Conv", ["r1", "w2"], ["c2"], pads=[1, 1, 1, 1], group=16),
        node("Conv", ["c2", "w3"], ["c3"]),
        node("Add", ["r1", "c3"], ["sum"]),
        node("Relu", ["sum"], ["r2"]),
        node("MaxPool", ["r2"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Sigmoid", ["p"], ["s"]),
        node("Concat", ["p", "s"], ["cat"], axis=1),
        node("GlobalAveragePool", ["cat"], ["g"]),
        node("Reshape", ["g", "shape"], ["flat"]),
        node("Gemm", ["flat", "wf", "bf"], ["y"]),
    ]
    initializers = [
        numpy_helper.from_array(a.astype(np.int64 if n == "shape" else np.float32), n) for n, a in weights.items()
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        initializers,
    )
    proto = onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    )
    inputs, outputs = (InputSpec("x", (1, 3, 16, 16)),), (OutputSpec("y", (1, 10)),)
    return Model(proto.SerializeToString(), LayerTags(), inputs, outputs, 17)


def _all_values(model: Model, image: np.ndarray) -> dict[str, np.ndarray]:
    """Every value by ONNX Runtime."""
    proto = model.proto()
    names = [output for node in proto.graph.node for output in node.output]
    known = {o.name for o in proto.graph.output}
    proto.graph.output.extend(
        helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in names if n not in known
    )
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return {"x": image, **dict(zip(names, session.run(names, {"x": image}), strict=True))}


def _images(count: int) -> list[np.ndarray]:
    r = np.random.default_rng(11)
    return [r.normal(0, 1, (1, 3, 16, 16)).astype(np.float32) for _ in range(count)]


def _ranges(model: Model) -> dict[str, ValueRange]:
    runs = [_all_values(model, image) for image in _images(8)]
    found = {}
    for name in runs[0]:
        low, high = min(float(run[name].min()) for run in runs), max(float(run[name].max()) for run in runs)
        found[name] = ValueRange(low, high, low, high)
    return found


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_fusion_leaves_one_op_per_layer() -> None:
    kinds = [op.kind for op in lower(_network(), "small").ops]
    expected = "conv conv conv binary pool activation concat pool reshape matmul"
    assert kinds == expected.split()


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688"])
@pytest.mark.parametrize(("mode", "least"), [("INT8", 0.999), ("F16", 0.99999), ("BF16", 0.999)])
def test_chip_model_agrees_with_float(
    tpu_toolchain: Toolchain, tmp_path: Path, chip: str, mode: str, least: float
) -> None:
    model = _network()
    graph = lower(model, "small")
    options = CompileOptions(chip=chip, mode=mode)  # type: ignore[arg-type]
    compiled = compile_graph(tpu_toolchain, graph, options, tmp_path, ranges=_ranges(model))
    image = _images(1)[0]
    found = run_on_chip_model(tpu_toolchain, compiled.model, chip, {"x": image})
    (output,) = found.values()
    assert _cosine(output, _all_values(model, image)["y"]) >= least


@pytest.mark.parametrize("chip", ["cv183x", "cv182x", "cv181x", "cv180x"])
def test_cv_chips_compile(tpu_toolchain: Toolchain, tmp_path: Path, chip: str) -> None:
    model = _network()
    graph = lower(model, "small")
    compiled = compile_graph(tpu_toolchain, graph, CompileOptions(chip), tmp_path, ranges=_ranges(model))
    assert compiled.model.suffix == ".cvimodel"
    assert compiled.model.stat().st_size > 0


def test_missing_ranges_are_named_before_the_compiler_runs(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    model = _network()
    ranges = _ranges(model)
    del ranges["p"]
    with pytest.raises(ModelError, match=": p"):
        compile_graph(tpu_toolchain, lower(model, "small"), CompileOptions("bm1684x"), tmp_path, ranges=ranges)


def test_unknown_names_and_modes_are_refused(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    graph = lower(_network(), "small")
    for modes in ({"nothing": "F16"}, {"c2": "F17"}):
        with pytest.raises(UsageError):
            compile_graph(tpu_toolchain, graph, CompileOptions("bm1684x", "F16"), tmp_path, modes=modes)

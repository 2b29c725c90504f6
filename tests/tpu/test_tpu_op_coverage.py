"""Every op that the TPU takes: ONNX -> Top MLIR -> the vendor's compiler -> its chip model, against ONNX Runtime.

Ops of a family stand side by side in one network, each on the network's input and with an output of its own, so that
one compilation serves them all and each is still judged alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper
from tpu_net import Case
from tpu_op_cases import FAMILIES, REFUSED, network

from nnkit.calibrate.stats import ValueRange
from nnkit.errors import ModelError
from nnkit.graph import Model
from nnkit_tpu.chip_model import run_on_chip_model
from nnkit_tpu.compile import CompileOptions, compile_graph
from nnkit_tpu.lowering import lower
from nnkit_tpu.toolchain import Toolchain

CHIP = "bm1684x"
COUNT = 4  # inputs of the calibration; the chip model gets the first
F16_LEAST, INT8_LEAST = 0.99999, 0.99


def inputs_of(model: Model) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(6)
    return [
        {spec.name: random.normal(0, 1, spec.shape).astype(np.float32) for spec in model.inputs} for _ in range(COUNT)
    ]


def by_onnx_runtime(model: Model, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every value of the network."""
    proto = model.proto()
    names = [output for node in proto.graph.node for output in node.output]
    known = {output.name for output in proto.graph.output}
    proto.graph.output.extend(
        helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in names if n not in known
    )
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return {**inputs, **dict(zip(names, session.run(names, dict(inputs)), strict=True))}


def ranges_of(runs: Sequence[Mapping[str, np.ndarray]]) -> dict[str, ValueRange]:
    found = {}
    for name in runs[0]:
        low, high = min(float(run[name].min()) for run in runs), max(float(run[name].max()) for run in runs)
        found[name] = ValueRange(low, high, low, high)
    return found


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def cosines(toolchain: Toolchain, cases: Mapping[str, Case], mode: str, folder: Path) -> dict[str, float]:
    """By case: chip model against ONNX Runtime."""
    model = network(cases)
    graph = lower(model, "ops")
    inputs = inputs_of(model)
    runs = [by_onnx_runtime(model, one) for one in inputs]
    options = CompileOptions(chip=CHIP, mode=mode)  # type: ignore[arg-type]
    compiled = compile_graph(toolchain, graph, options, folder, ranges=ranges_of(runs))
    given = {compiled.locations[name]: array for name, array in inputs[0].items()}
    found = run_on_chip_model(toolchain, compiled.model, CHIP, given)
    assert len(found) == len(cases)
    result = {}
    for name, (output, values) in zip(cases, found.items(), strict=True):
        assert output.startswith(compiled.locations[name]), f"{output} stands where {name} should"
        assert values.shape == runs[0][name].shape, name
        result[name] = cosine(values, runs[0][name])
    return result


@pytest.mark.parametrize("family", list(FAMILIES))
@pytest.mark.parametrize(("mode", "least"), [("F16", F16_LEAST), ("INT8", INT8_LEAST)])
def test_chip_model_agrees_with_float(
    tpu_toolchain: Toolchain, tmp_path: Path, family: str, mode: str, least: float
) -> None:
    found = cosines(tpu_toolchain, FAMILIES[family], mode, tmp_path)
    assert {name: value for name, value in found.items() if not value >= least} == {}


def test_what_is_refused_is_named_with_its_reason() -> None:
    with pytest.raises(ModelError) as caught:
        lower(network({name: case for name, (case, _) in REFUSED.items()}), "ops")
    lines = str(caught.value).splitlines()
    for name, (_, reason) in REFUSED.items():
        assert any(line.strip().startswith(f"{name} (") and reason in line for line in lines), name
    assert f"{len(REFUSED)} layers cannot run" in lines[0]


def test_what_the_cv18xx_compute_wrongly_is_refused_for_them_alone() -> None:
    cases: dict[str, Case] = {
        "over": lambda net, to: net("Div", net.constant(2.0), net("Exp", "x"), to=to),
        "deconv_dilated": FAMILIES["windows"]["deconv_dilated"],
        "erf": FAMILIES["functions"]["erf"],
    }
    model = network(cases)
    assert len(lower(model, "ops", "bm1684x").outputs) == 3
    with pytest.raises(ModelError) as caught:
        lower(model, "ops", "cv181x")
    first, *lines = str(caught.value).splitlines()
    assert first.startswith("3 layers cannot run")
    assert "over (Div): " in lines[0]
    assert "found another number divided by its input; write 1 by the tensor, and a product" in lines[0]
    assert "deconv_dilated (ConvTranspose): " in lines[1]
    assert "found dilations 2x2" in lines[1]
    assert "erf (Erf): the cv18xx have no error function outside of Gelu" in lines[2]

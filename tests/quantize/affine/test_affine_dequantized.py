"""The float network that a quantised one stands for, against ONNX Runtime on the quantised one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from nnkit.api.checking import check
from nnkit.api.drafting import refused, write_draft
from nnkit.errors import SeveralError
from nnkit.importers import import_onnx
from nnkit.quantize.affine.dequantized import dequantized


def run(model: bytes, value: NDArray[np.float32]) -> NDArray[np.float32]:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    result: NDArray[np.float32] = session.run(None, {session.get_inputs()[0].name: value})[0]
    return result


def quantised_conv(folder: Path, scale: float, zero: int) -> Path:
    """A 1x1 convolution between roundings; scale, zero: of its result in 8 bits without sign."""
    constants: dict[str, Any] = {"w": np.array([[90], [-127]], np.int8).reshape(2, 1, 1, 1)}
    constants |= {"w_scale": np.float32(0.01), "w_zero": np.int8(0)}
    constants |= {"x_scale": np.float32(0.08), "x_zero": np.uint8(128)}
    constants |= {"y_scale": np.float32(scale), "y_zero": np.uint8(zero)}
    x, y = ["x_scale", "x_zero"], ["y_scale", "y_zero"]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", *x], ["x_stored"]),
        helper.make_node("DequantizeLinear", ["x_stored", *x], ["x_real"]),
        helper.make_node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["w_real"]),
        helper.make_node("Conv", ["x_real", "w_real"], ["sum"], kernel_shape=[1, 1], name="conv"),
        helper.make_node("QuantizeLinear", ["sum", *y], ["y_stored"]),
        helper.make_node("DequantizeLinear", ["y_stored", *y], ["y"]),
    ]
    ports = [helper.make_tensor_value_info(n, 1, (1, c, 16, 16)) for n, c in (("x", 1), ("y", 2))]
    stored = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "net", ports[:1], ports[1:], stored)
    path = folder / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


@pytest.mark.parametrize(
    ("scale", "zero", "operators"),
    [(6 / 255, 0, ["Conv", "Clip"]), (0.05, 0, ["Conv", "Relu"]), (0.11, 120, ["Conv"])],
    ids=["Relu6", "Relu", "neither"],
)
def test_what_quantisation_cuts_off_stays_cut_off(
    tmp_path: Path, scale: float, zero: int, operators: list[str]
) -> None:
    path = quantised_conv(tmp_path, scale, zero)
    model = dequantized(import_onnx(path).model)
    assert [node.op_type for node in model.proto().graph.node] == operators
    value = np.linspace(-10, 10, 256, dtype=np.float32).reshape(1, 1, 16, 16)
    theirs = run(path.read_bytes(), value)
    # half a step of the result, and half a step of the input by the largest weight
    within = scale / 2 + 0.08 / 2 * 1.27 + 1e-5
    assert np.abs(run(model.onnx_bytes, value) - theirs).max() <= within


def test_a_network_of_onnx_runtime_s_quantiser(shared_dir: Path) -> None:
    path = shared_dir / "nets/d_dscnn_int8qdq_s.onnx"
    model = import_onnx(path).model
    (spec,) = model.inputs
    value = np.random.default_rng(3).standard_normal(spec.shape).astype(np.float32)
    ours, theirs = run(dequantized(model).onnx_bytes, value), run(path.read_bytes(), value)
    assert 10 * np.log10(np.sum(theirs**2) / np.sum((ours - theirs) ** 2)) > 20


def test_targets_with_integers_of_their_own_name_the_way(tmp_path: Path) -> None:
    """One refusal, not one for each rounding; what it says to write makes the network theirs."""
    targets = "{gap8: {}, nnie: {chip: hi3516cv500}, tpu: {chip: cv181x}}"
    inputs = '{x: {calibration: {images: "images/*.npy"}}}'
    recipe = f"nnkit: 1\nname: net\nmodel: {{path: net.onnx, inputs: {inputs}}}\ntargets: {targets}\n"
    quantised_conv(tmp_path, 0.1, 120)
    (tmp_path / "images").mkdir()
    for index in range(2):
        np.save(tmp_path / f"images/{index}.npy", np.zeros((1, 1, 16, 16), np.float32))
    path = tmp_path / "recipe.yaml"
    path.write_text(recipe)
    with pytest.raises(SeveralError) as caught:
        check(path)
    text = str(caught.value)
    assert text.count("the network is quantised already") == 3
    assert "set `scheme: affine`, which keeps its integers" in text
    assert "choose a bm1684x or bm1688" in text
    assert "`dequantize: true`" in text
    path.write_text(recipe.replace("net.onnx,", "net.onnx, dequantize: true,"))
    check(path)


def test_init_writes_it_for_targets_that_cannot_keep_the_integers(tmp_path: Path) -> None:
    quantised_conv(tmp_path, 0.1, 120)
    for target, anew in (("hi3516dv300", True), ("cv181x", True), ("bm1684x", False), ("gap8", False)):
        recipe = tmp_path / f"{target}.yaml"
        write_draft(tmp_path / "net.onnx", recipe, targets=[target], images=None, shapes=())
        text = recipe.read_text()
        assert ("dequantize: true" in text) == anew
        assert refused(recipe, images=False) == []
        if anew:
            recipe.write_text("\n".join(line for line in text.split("\n") if "dequantize: true" not in line))
            (error,) = refused(recipe, images=False)
            assert "model: {dequantize: true}   beside what is there" in error.remedy
            assert "ansi_c (precision: int8) or gap8 (scheme: affine) or onnx_qdq: take" in error.remedy

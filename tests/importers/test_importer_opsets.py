"""Every operator set from 9 to the newest: the imported model computes what the file's own model computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from nnkit.errors import ModelError
from nnkit.importers import import_onnx, tool_steps

NEWEST = onnx.defs.onnx_opset_version()
RNG = np.random.default_rng(7)


class _Net:
    """One graph with a branch for every operator whose spelling changed between operator sets."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Any] = {}

    def add(self, op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [output], name=f"n_{output}", **attributes))
        return output

    def constant(self, name: str, value: Any, dtype: Any = np.float32) -> str:
        self.constants[name] = np.asarray(value, dtype=dtype)
        return name

    def axes(self, op: str, source: str, output: str, axes: list[int], since: int, **attributes: Any) -> str:
        """An op whose axes moved from an attribute to an input at operator set `since`."""
        if self.opset < since:
            return self.add(op, [source], output, axes=axes, **attributes)
        return self.add(op, [source, self.constant(f"{output}_axes", axes, np.int64)], output, **attributes)

    def build(self) -> list[str]:
        rand = RNG.standard_normal
        positive = RNG.uniform(0.5, 1.5, 4)
        conv = self.add("Conv", ["x", self.constant("w", rand((4, 4, 3, 3)))], "conv", pads=[1, 1, 1, 1])
        stats = [self.constant(f"bn{i}", positive + i) for i in range(4)]
        norm = self.add("BatchNormalization", [conv, *stats], "bn", epsilon=1e-3)
        relu = self.add("Relu", [norm], "relu")
        pool = self.add("MaxPool", [relu], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
        found = [
            self.add("AveragePool", [pool], "avg", kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 1, 1]),
            self.add("LeakyRelu", [pool], "leaky", alpha=0.1),
            self.add("PRelu", [pool, self.constant("slope", positive.reshape(4, 1, 1))], "prelu"),
            self.add("ConvTranspose", [pool, self.constant("wt", rand((4, 2, 2, 2)))], "deconv", strides=[2, 2]),
            self.add("Transpose", [pool], "permuted", perm=[0, 2, 3, 1]),
            self.add("Add", [pool, self.constant("shift", positive.reshape(4, 1, 1))], "added"),
            self.axes("ReduceMean", pool, "mean", [2, 3], 18, keepdims=1),
            self.axes("ReduceSum", pool, "total", [2, 3], 13, keepdims=0),
            self.add("Softmax", [pool], "soft4", axis=1),
        ]
        if self.opset < 11:
            found.append(self.add("Clip", [pool], "clip", min=0.1, max=0.6))
            found.append(self.add("Pad", [pool], "padded", pads=[0, 0, 1, 2, 0, 0, 3, 0], value=1.5))
        else:
            low, high = self.constant("low", 0.1), self.constant("high", 0.6)
            found.append(self.add("Clip", [pool, low, high], "clip"))
            pads = self.constant("pads", [0, 0, 1, 2, 0, 0, 3, 0], np.int64)
            found.append(self.add("Pad", [pool, pads, self.constant("fill", 1.5)], "padded"))
        if self.opset >= 18:
            pads, axes = self.constant("hw_pads", [1, 2, 3, 0], np.int64), self.constant("hw", [-2, 3], np.int64)
            found.append(self.add("Pad", [pool, pads, "fill", axes], "padded_hw"))
        self._dropout(pool, found)
        self._resize(pool, found)
        gap = self.add("GlobalAveragePool", [pool], "gap")
        squeezed = self.axes("Squeeze", gap, "squeezed", [2, 3], 13)
        found.append(self.axes("Unsqueeze", squeezed, "unsqueezed", [1], 13))
        flat = self.add("Flatten", [pool], "flat")
        gemm = [flat, self.constant("wg", rand((5, 64))), self.constant("bg", rand(5))]
        found.append(self.add("Gemm", gemm, "gemm", transB=1, alpha=0.5, beta=2.0))
        found.append(self.add("Softmax", ["gemm"], "soft2", axis=1))
        return found

    def _dropout(self, source: str, found: list[str]) -> None:
        if self.opset < 12:
            found.append(self.add("Dropout", [source], "dropped", ratio=0.3))
        else:
            found.append(self.add("Dropout", [source, self.constant("ratio", 0.3)], "dropped"))

    def _resize(self, source: str, found: list[str]) -> None:
        scales = self.constant("scales", [1, 1, 2, 2])
        if self.opset < 10:
            found.append(self.add("Upsample", [source, scales], "up", mode="nearest"))
        elif self.opset == 10:
            found.append(self.add("Resize", [source, scales], "up", mode="nearest"))
        else:
            roi = self.constant("roi", [])  # ONNX Runtime wants it written before operator set 13
            how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
            found.append(self.add("Resize", [source, roi, scales], "up", **how))
            sizes = self.constant("sizes", [1, 4, 8, 12], np.int64)
            if self.opset >= 13:
                found.append(self.add("Resize", [source, "", "", sizes], "up_to", **how))
            found.append(self.add("Resize", [source, roi, scales], "smooth", mode="linear"))
        if self.opset >= 18:
            hw = self.constant("hw_scales", [3, 2])
            found.append(self.add("Resize", [source, "", hw], "up_hw", axes=[2, 3], **how))


def _expected(model: onnx.ModelProto, x: np.ndarray[Any, Any], run_onnx: Any) -> dict[str, Any]:
    try:
        return dict(run_onnx(model.SerializeToString(), {"x": x}))
    except Exception as error:
        # ONNX Runtime is behind onnx by some operator sets; onnx's own evaluator knows them all.
        if "opset" not in str(error) and "IR version" not in str(error):
            raise
        names = [value.name for value in model.graph.output]
        return dict(zip(names, ReferenceEvaluator(model).run(None, {"x": x}), strict=True))


@pytest.mark.parametrize("opset", range(9, NEWEST + 1))
def test_same_results_from_every_operator_set(opset: int, make_model: Any, save: Any, run_onnx: Any) -> None:
    net = _Net(opset)
    outputs = net.build()
    model = make_model(
        net.nodes,
        net.constants,
        opset=opset,
        ir_version=4 if opset == 9 else 8 if opset < 21 else onnx.IR_VERSION if opset > 25 else 10,
        inputs={"x": ["batch", 4, 8, 8]},
        outputs=dict.fromkeys(outputs),
    )
    result = import_onnx(save(model))
    x = np.random.default_rng(opset).standard_normal((1, 4, 8, 8)).astype(np.float32)
    expected = _expected(model, x, run_onnx)
    actual = run_onnx(result.model.onnx_bytes, {"x": x})

    assert list(actual) == outputs == [output.name for output in result.model.outputs]
    for name in outputs:
        assert actual[name].shape == result.model.outputs[outputs.index(name)].shape
        np.testing.assert_allclose(actual[name], expected[name], rtol=1e-5, atol=1e-5, err_msg=name)
    assert result.model.opset == opset
    assert result.model.proto().opset_import[0].version == 21
    named = {node.name: node.op_type for node in result.model.proto().graph.node}
    assert {f"n_{name}" for name in outputs} <= set(named), "a layer lost its name"
    assert "Constant" not in named.values()


def test_axes_forms_become_one_spelling(make_model: Any, save: Any) -> None:
    nodes = [
        helper.make_node("Pad", ["x", "pads", "", "axes"], ["p"], name="pad"),
        helper.make_node(
            "Resize",
            ["p", "", "", "sizes"],
            ["y"],
            name="resize",
            axes=[2, 3],
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        ),
    ]
    constants = {
        "pads": np.array([1, 2, 3, 4], np.int64),
        "axes": np.array([3, 2], np.int64),
        "sizes": np.array([24, 24], np.int64),
    }
    graph = import_onnx(save(make_model(nodes, constants, opset=19))).model.proto().graph
    arrays = {tensor.name: onnx.numpy_helper.to_array(tensor).tolist() for tensor in graph.initializer}
    pad, resize = graph.node
    assert arrays[pad.input[1]] == [0, 0, 2, 1, 0, 0, 4, 3]
    assert len(pad.input) == 2
    assert arrays[resize.input[3]] == [1, 4, 24, 24]
    assert "axes" not in {attribute.name for attribute in resize.attribute}


def test_last_axis_softmax_of_old_models_stays_one_layer(make_model: Any, save: Any) -> None:
    nodes = [helper.make_node("Softmax", ["x"], ["y"], name="probability_hp", axis=3)]
    model = import_onnx(save(make_model(nodes, opset=11))).model
    (node,) = model.proto().graph.node
    assert (node.op_type, node.name, list(node.output)) == ("Softmax", "probability_hp", ["y"])
    assert model.tags.of("y").hp


def test_a_quantised_network_may_round_a_tie_elsewhere_but_compute_nothing_else(
    make_model: Any, save: Any, run_onnx: Any
) -> None:
    """Means of four integers lie half between two; ONNX Runtime's AveragePool of set 11 and of 22 differ in a bit."""
    nodes = []
    for source, end in (("x", "rounded"), ("mean", "y")):
        nodes.append(helper.make_node("QuantizeLinear", [source, "scale", "zero"], [f"{end}_stored"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{end}_stored", "scale", "zero"], [end]))
    nodes.insert(2, helper.make_node("AveragePool", ["rounded"], ["mean"], kernel_shape=[2, 2], strides=[2, 2]))
    constants = {"scale": np.float32(0.02), "zero": np.uint8(120)}
    model = make_model(
        nodes, constants, opset=17, ir_version=8, inputs={"x": [1, 8, 14, 14]}, outputs={"y": [1, 8, 7, 7]}
    )
    x = np.random.default_rng(1).uniform(-1, 1, (1, 8, 14, 14)).astype(np.float32)
    wanted = run_onnx(model.SerializeToString(), {"x": x})["y"]
    difference = np.abs(run_onnx(import_onnx(save(model)).model.onnx_bytes, {"x": x})["y"] - wanted)
    assert difference.max() <= 0.0201
    assert (difference > 0.01).mean() < 0.2

    wrong = [onnx.ModelProto.FromString(model.SerializeToString()) for _ in range(2)]
    wrong[0].graph.node[2].op_type = "MaxPool"
    index = next(index for index, each in enumerate(model.graph.initializer) if each.name == "scale")
    wrong[1].graph.initializer[index].CopyFrom(onnx.numpy_helper.from_array(np.float32(0.021), "scale"))
    for each in wrong:
        with pytest.raises(ModelError, match="output 'y' changes"):
            tool_steps._compare(tool_steps.StepState(each, {}, model, {}, "net.onnx", []))


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("axis", [1, 2, 3, -2])
def test_softmax_of_old_operator_sets_over_rows_of_one_image(
    make_model: Any, save: Any, run_onnx: Any, op: str, axis: int
) -> None:
    """Up to operator set 12 it goes over all axes from `axis` on; the values before them are no batch."""
    path = save(make_model([helper.make_node(op, ["x"], ["y"], axis=axis)], opset=11, inputs={"x": [1, 3, 4, 2]}))
    model = import_onnx(path).model
    graph = model.proto().graph
    assert all(value.type.tensor_type.shape.dim[0].dim_value == 1 for value in (*graph.value_info, *graph.output))
    x = np.random.default_rng(6).normal(0, 3, (1, 3, 4, 2)).astype(np.float32)
    expected = run_onnx(path.read_bytes(), {"x": x})["y"]
    np.testing.assert_allclose(run_onnx(model.onnx_bytes, {"x": x})["y"], expected, rtol=1e-5, atol=1e-6)


def test_a_network_that_is_quantised_at_each_run_is_refused_with_what_to_give(save: Any) -> None:
    layers = "q, s, z = DynamicQuantizeLinear(x) m = MatMulInteger(q, w, z) y = Cast<to = 1>(m)"
    given = "net (float[1, 4] x) => (float[1, 2] y) <uint8[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}>"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {given} {{ {layers} }}')
    with pytest.raises(ModelError, match=r"(?s)DynamicQuantizeLinear.*MatMulInteger.*give the float network"):
        import_onnx(save(model))

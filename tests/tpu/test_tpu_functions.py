"""Functions, normalisations and what rewrites make of other layers: builds pass, with the values of the program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from tpu_build import built, refuted
from tpu_net import Case, Net
from tpu_op_cases import FUNCTIONS, network

from nnkit.program import Window
from nnkit_tpu.lifted import asked_mode, computed_mode
from nnkit_tpu.program import TpuActivation, TpuLayerNorm, TpuPool, TpuReduce
from nnkit_tpu.toolchain import Toolchain

NOT_ON_CV = ("erf", "clip_below", "clip_above", "expanded")


@pytest.mark.parametrize("options", ["chip: bm1684x", "chip: bm1688, precision: f16", "chip: cv181x"])
def test_functions_are_computed_as_the_program_has_them(
    tpu_toolchain: Toolchain, tmp_path: Path, options: str
) -> None:
    taken = [name for name in FUNCTIONS if "cv" not in options or name not in NOT_ON_CV]
    report = built(network({name: FUNCTIONS[name] for name in taken}), options, tmp_path)
    assert refuted(report) == []
    assert report["status"] == "ok"


def test_a_root_mean_square_is_divided_by_on_the_cv18xx(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    """The compiler makes one layer of it, which it has no code for."""
    net = Net()
    mean = net("ReduceMean", net("Mul", "rows", "rows"), net.ints(-1), keepdims=1)
    root = net("Sqrt", net("Add", mean, net.constant(1e-5)))
    normal = net("Mul", "rows", net("Div", net.constant(1.0), root), to="normal")
    report = built(net.model([net("MatMul", normal, net.normal(20, 6))]), "chip: cv181x", tmp_path)
    assert refuted(report) == []
    assert report["status"] == "ok"


def _instance_norm(net: Net, to: str) -> str:
    return net("InstanceNormalization", "x", net.positive(8), net.normal(8), to=to)


def _depth_to_space(net: Net, to: str) -> str:
    return net("DepthToSpace", "x", blocksize=2, mode="CRD", to=to)


def _recurrent(op: str, gates: int) -> Case:
    """Two steps of twenty numbers, as one sequence that is read backwards."""

    def build(net: Net, to: str) -> str:
        two = net("Slice", "rows", net.ints(0), net.ints(2), net.ints(1))
        steps = net("Transpose", two, perm=[1, 0, 2])
        weights = net.normal(1, gates * 5, 20), net.normal(1, gates * 5, 5), net.normal(1, gates * 10)
        more = {"linear_before_reset": 1} if op == "GRU" else {}
        net.nodes.append(
            helper.make_node(
                op,
                [steps, *weights],
                [f"{to}_steps", f"{to}_last"],
                name=to,
                hidden_size=5,
                direction="reverse",
                **more,
            )
        )
        return net("Squeeze", f"{to}_last", net.ints(0), to=f"{to}_state")

    return build


def _gelu_of_parts(net: Net, to: str) -> str:
    cube = net("Mul", net("Pow", "x", net.constant(3.0)), net.constant(0.044715))
    inner = net("Mul", net("Add", "x", cube), net.constant(0.7978845608))
    gate = net("Add", net.constant(1.0), net("Tanh", inner))
    return net("Mul", net("Mul", "x", net.constant(0.5)), gate, to=to)


def _norm_of_one_row(net: Net, to: str) -> str:
    row = net("Reshape", net("GlobalAveragePool", "x"), net.ints(1, 8))
    return net("LayerNormalization", row, net.constant(np.ones(8)), net.constant(np.zeros(8)), axis=-1, to=to)


REWRITTEN: Mapping[str, Case] = {
    "norm_of_one_row": _norm_of_one_row,
    "gelu_of_parts": _gelu_of_parts,
    "instance_norm": _instance_norm,
    "depth_to_space": _depth_to_space,
    "gru": _recurrent("GRU", 3),
    "lstm": _recurrent("LSTM", 4),
}


def test_layers_without_a_counterpart_become_others(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    net = Net()
    model = net.model([case(net, name) for name, case in REWRITTEN.items()])
    report = built(model, "chip: bm1684x", tmp_path)
    fired = {each["name"] for each in report["rewrites"] if each["fired"]}
    unrolled = "unroll_uncommon_recurrent"
    assert {"gelu_from_parts", "instance_norm_to_rows", "depth_to_space_to_transpose", unrolled} <= fired
    assert refuted(report) == []
    assert report["status"] == "ok"
    assert report["verify"]["float_vs_program"]["sqnr_db"] > 20


def _parts(net: Net) -> Sequence[str]:
    """Query, key and value of one head [1, 6, 8], cut from one product along a first axis of three."""
    product = net("Reshape", net("MatMul", "rows", net.normal(20, 24)), net.ints(1, 1, 6, 3, 8))
    three = net("Squeeze", net("Transpose", product, perm=[3, 1, 2, 0, 4]), net.ints(3))
    cut = [net("Slice", three, net.ints(part), net.ints(part + 1), net.ints(0)) for part in range(3)]
    return [net("Squeeze", each, net.ints(0)) for each in cut]


def _attention(net: Net, to: str) -> str:
    query, key, value = _parts(net)
    scores = net("MatMul", query, net("Transpose", key, perm=[0, 2, 1]))
    return net("MatMul", net("Softmax", scores, axis=-1), value, to=to)


def _masked_attention(net: Net, to: str) -> str:
    query, key, value = _parts(net)
    scores = net("Mul", net("MatMul", query, net("Transpose", key, perm=[0, 2, 1])), net.constant(0.35))
    masked = net("Add", scores, net.normal(6, 6))
    return net("MatMul", net("Softmax", masked, axis=-1), value, to=to)


def test_attention_is_computed_as_the_program_has_it(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    net = Net()
    model = net.model([_attention(net, "attention"), _masked_attention(net, "masked")])
    report = built(model, "chip: bm1684x", tmp_path)
    assert refuted(report) == []
    assert report["status"] == "ok"
    assert report["verify"]["float_vs_program"]["sqnr_db"] > 25


def test_rows_are_picked_by_numbers(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    """Of more rows than F16 has whole numbers for: the numbers themselves stay in float32."""
    net = Net()
    kept = net("Clip", "rows", net.constant(0.0), net.constant(2999.0))
    net.nodes.append(helper.make_node("Cast", [kept], ["numbers"], name="numbers", to=TensorProto.INT64))
    picked = net("Gather", net.normal(3000, 4), "numbers")
    moved = net("Add", picked, net.normal(4), to="moved")
    report = built(net.model([moved]), "chip: bm1684x", tmp_path, numbers=3000)
    assert refuted(report) == []
    assert report["status"] == "ok"
    assert report["verify"]["float_vs_program"]["sqnr_db"] > 30


def test_a_network_without_weights_is_built(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    net = Net()
    turned = net("Slice", net("Transpose", "rows", perm=[1, 0, 2]), net.ints(1), net.ints(3), net.ints(0))
    report = built(net.model([net("Transpose", turned, perm=[1, 0, 2], to="cut")]), "chip: bm1684x", tmp_path)
    assert refuted(report) == []
    assert report["status"] == "ok"


def test_which_functions_are_computed_in_float32() -> None:
    gelu = TpuActivation(name="a", inputs=("x",), output="a", function="gelu")
    erf = replace(gelu, function="erf")
    norm = TpuLayerNorm(name="n", inputs=("x",), output="n", axis=1, epsilon=1e-5)
    assert computed_mode(gelu, "F16", "bm1684x", ()) == "F32"
    assert computed_mode(gelu, "F16", "bm1688", ()) == "F16"
    assert computed_mode(erf, "F16", "bm1688", ()) == "F32"
    assert (asked_mode(erf, "F16"), asked_mode(gelu, "F16")) == ("F32", "F16")
    assert computed_mode(norm, "BF16", "bm1688", ()) == "F32"
    assert computed_mode(norm, "F16", "bm1688", ()) == "F16"
    few, many = (
        TpuPool(name="p", inputs=("x",), output="p", function="average", window=Window(side, side)) for side in (3, 4)
    )
    assert (computed_mode(few, "BF16", "bm1688", ()), computed_mode(many, "BF16", "bm1688", ())) == ("BF16", "F32")
    mean = TpuReduce(name="m", inputs=("x",), output="m", function="mean", axes=(1,), keep_dims=True)
    of = {size: computed_mode(mean, "F16", "bm1688", (), (1, size, 4)) for size in (256, 257)}
    assert of == {256: "F16", 257: "F32"}
    assert (asked_mode(many, "BF16"), asked_mode(many, "F16")) == ("F32", "F16")

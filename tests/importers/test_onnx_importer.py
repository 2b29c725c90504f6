"""Import as a whole: names, inputs, types, what is left out and what is refused."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from nnkit.errors import ModelError, RecipeError
from nnkit.importers import ImportOptions, import_onnx, model_file_digest

WEIGHT = np.random.default_rng(1).standard_normal((4, 4, 3, 3)).astype(np.float32)


def _conv(source: str, output: str, name: str = "") -> onnx.NodeProto:
    return helper.make_node("Conv", [source, "w"], [output], name=name, pads=[1, 1, 1, 1])


def _relu(source: str, output: str, name: str = "") -> onnx.NodeProto:
    return helper.make_node("Relu", [source], [output], name=name)


def _names(model: Any) -> list[str]:
    return [node.name for node in model.proto().graph.node]


def test_open_batch_is_pinned_and_every_value_has_a_static_shape(make_model: Any, save: Any) -> None:
    nodes = [_conv("x", "a"), helper.make_node("Flatten", ["a"], ["y"])]
    result = import_onnx(
        save(make_model(nodes, {"w": WEIGHT}, inputs={"x": ["n", 4, 6, 5]}, outputs={"y": ["n", 120]}))
    )
    assert result.model.inputs[0].shape == (1, 4, 6, 5)
    assert result.model.outputs[0].shape == (1, 120)
    assert "the open batch of input 'x' is pinned to 1" in result.notes
    graph = result.model.proto().graph
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in (*graph.value_info, *graph.output)}
    assert shapes == {"a": [1, 4, 6, 5], "y": [1, 120]}


@pytest.mark.parametrize("open_size", ["height", -1])
def test_other_open_sizes_come_from_the_recipe(make_model: Any, save: Any, open_size: Any) -> None:
    path = save(make_model([_conv("x", "y")], {"w": WEIGHT}, inputs={"x": ["n", 4, open_size, 8]}))
    with pytest.raises(ModelError, match=r"input 'x' leaves dimension 2.* open") as caught:
        import_onnx(path)
    assert "model.inputs.x.shape" in caught.value.remedy
    model = import_onnx(path, ImportOptions(inputs={"x": (1, 4, 10, 8)})).model
    assert model.outputs[0].shape == (1, 4, 10, 8)


@pytest.mark.parametrize("shape", [(1, 3, 8, 8), (1, 4, 8), (2, 4, 8, 8), (1, 4, 0, 8)])
def test_a_declared_shape_that_contradicts_is_placed_in_the_recipe(make_model: Any, save: Any, shape: Any) -> None:
    path = save(make_model([_conv("x", "y")], {"w": WEIGHT}, inputs={"x": ["n", 4, "h", 8]}))
    with pytest.raises(RecipeError, match="contradicts the model's") as caught:
        import_onnx(path, ImportOptions(inputs={"x": shape}, input_where=lambda name: f"r.yaml:5:{len(name)}"))
    assert caught.value.where == "r.yaml:5:1"


def test_an_unknown_declared_input_lists_the_known(make_model: Any, save: Any) -> None:
    path = save(make_model([_relu("x", "y")]))
    with pytest.raises(RecipeError, match="no input 'image'") as caught:
        import_onnx(path, ImportOptions(inputs={"image": (1, 4, 8, 8)}))
    assert "x" in caught.value.remedy


def test_a_fixed_batch_is_refused(make_model: Any, save: Any) -> None:
    with pytest.raises(ModelError, match="has batch 4"):
        import_onnx(save(make_model([_relu("x", "y")], inputs={"x": [4, 4, 8, 8]})))


def test_an_input_too_small_for_the_network_names_the_layer(make_model: Any, save: Any) -> None:
    nodes = [helper.make_node("MaxPool", ["x"], ["y"], name="pool9", kernel_shape=[9, 9])]
    with pytest.raises(ModelError, match="pool9"):
        import_onnx(save(make_model(nodes)))


def test_a_shape_known_at_run_time_only_names_the_layer(make_model: Any, save: Any) -> None:
    nodes = [_relu("x", "a", "first"), helper.make_node("NonZero", ["a"], ["y"], name="where_positive")]
    model = make_model(nodes, types={"y": TensorProto.INT64})
    with pytest.raises(ModelError, match=r"layer 'where_positive' \(NonZero\).*not known before run time") as caught:
        import_onnx(save(model))
    assert "replace the NonZero" in caught.value.remedy
    assert "fixed input sizes" not in caught.value.remedy  # they are


def test_a_shape_that_is_computed_names_the_value_that_gives_it(make_model: Any, save: Any) -> None:
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], name="most", keepdims=0),
        helper.make_node("Cast", ["most"], ["whole"], name="whole", to=TensorProto.INT64),
        helper.make_node("Reshape", ["whole", "one"], ["times"], name="times"),
        helper.make_node("Tile", ["v", "times"], ["y"], name="repeat"),
    ]
    model = make_model(nodes, {"one": np.array([1], np.int64), "v": np.ones(3, np.float32)})
    with pytest.raises(ModelError, match=r"layer 'repeat' \(Tile\).*not known before run time") as caught:
        import_onnx(save(model))
    assert "export the network with 'times' as a constant: it is computed" in caught.value.remedy


def test_unnamed_and_repeated_names_become_unique(make_model: Any, save: Any) -> None:
    nodes = [
        _conv("x", "a"),
        _relu("a", "b", "act"),
        _relu("b", "c", "act"),
        _relu("c", "act"),
        _relu("act", "y", "a"),
    ]
    result = import_onnx(save(make_model(nodes, {"w": WEIGHT})))
    names = _names(result.model)
    assert names[1:3] == ["act", "act_2"]
    assert len(set(names)) == 5
    assert all(names)
    assert any("act_2" in note for note in result.notes)


def test_weights_listed_as_inputs_and_unused_things(make_model: Any, save: Any, run_onnx: Any) -> None:
    nodes = [
        _conv("x", "a"),
        _relu("a", "dead", "dead_branch"),
        helper.make_node("Dropout", ["a"], ["y", "mask"], name="drop"),
    ]
    inputs = {"x": [1, 4, 8, 8], "w": [4, 4, 3, 3], "unused": [3], "spare": [1, 3]}
    model = make_model(nodes, {"w": WEIGHT, "unused": np.zeros(3, np.float32)}, opset=9, ir_version=3, inputs=inputs)
    result = import_onnx(save(model))
    graph = result.model.proto().graph
    assert [spec.name for spec in result.model.inputs] == ["x"]
    assert "unused" not in [tensor.name for tensor in graph.initializer]
    assert [node.op_type for node in graph.node] == ["Conv", "Dropout"]
    assert list(graph.node[1].output) == ["y"]
    notes = " | ".join(result.notes)
    assert "input 'spare' is not used" in notes
    assert "dead_branch" in notes
    assert "taken as constants" in notes
    x = np.random.default_rng(0).standard_normal((1, 4, 8, 8)).astype(np.float32)
    feeds = {"x": x, "spare": np.zeros((1, 3), np.float32)}
    np.testing.assert_allclose(
        run_onnx(result.model.onnx_bytes, {"x": x})["y"], run_onnx(model.SerializeToString(), feeds)["y"], rtol=1e-6
    )


def test_constant_nodes_become_initializers(make_model: Any, save: Any) -> None:
    nodes = [
        helper.make_node("Constant", [], ["k"], value_floats=[1.0, 2.0, 3.0, 4.0]),
        helper.make_node("Constant", [], ["s"], value=helper.make_tensor("t", TensorProto.INT64, [3], [4, 1, 1])),
        helper.make_node("Reshape", ["k", "s"], ["k3"], name="static"),
        helper.make_node("Mul", ["x", "k3"], ["y"], name="scale"),
    ]
    model = import_onnx(save(make_model(nodes))).model
    assert _names(model) == ["scale"]
    (tensor,) = model.proto().graph.initializer
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(tensor).reshape(-1), [1, 2, 3, 4])
    kept = import_onnx(save(make_model(nodes)), ImportOptions(simplify=False)).model
    assert _names(kept) == ["static", "scale"]


@pytest.mark.parametrize(("kind", "name"), [(np.float16, "float16"), (np.float64, "double")])
def test_other_float_types_become_float32(make_model: Any, save: Any, run_onnx: Any, kind: Any, name: str) -> None:
    element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["a"]),
        helper.make_node("Cast", ["a"], ["y"], name="cast", to=TensorProto.FLOAT),
    ]
    model = make_model(nodes, {"w": WEIGHT[0, :, :1, :1].astype(kind)}, types={"x": element})
    result = import_onnx(save(model))
    assert result.notes[0] == f"1 {name} tensors are taken as float32"
    graph = result.model.proto().graph
    assert {tensor.data_type for tensor in graph.initializer} == {TensorProto.FLOAT}
    assert graph.node[1].op_type == "Identity"
    x = np.random.default_rng(0).standard_normal((1, 4, 8, 8)).astype(np.float32)
    expected = run_onnx(model.SerializeToString(), {"x": x.astype(kind)})["y"]
    actual = run_onnx(result.model.onnx_bytes, {"x": x})["y"]
    np.testing.assert_allclose(actual, expected, atol=2e-2 if kind is np.float16 else 1e-5)


def test_a_double_beyond_float32_names_the_tensor(make_model: Any, save: Any) -> None:
    model = make_model([_conv("x", "y")], {"w": WEIGHT.astype(np.float64) * 1e300}, types={"x": 11, "y": 11})
    with pytest.raises(ModelError, match="tensor 'w' holds a double beyond"):
        import_onnx(save(model))


def test_integer_input_cast_at_once_is_fed_as_float(make_model: Any, save: Any, run_onnx: Any) -> None:
    nodes = [helper.make_node("Cast", ["x"], ["f"], name="c", to=TensorProto.FLOAT), _conv("f", "y")]
    model = make_model(nodes, {"w": WEIGHT}, types={"x": TensorProto.UINT8})
    result = import_onnx(save(model))
    x = np.random.default_rng(0).integers(0, 256, (1, 4, 8, 8))
    actual = run_onnx(result.model.onnx_bytes, {"x": x.astype(np.float32)})["y"]
    expected = run_onnx(model.SerializeToString(), {"x": x.astype(np.uint8)})["y"]
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-4)
    assert any("integers cast to float" in note for note in result.notes)


def test_an_integer_input_used_as_such_is_refused(make_model: Any, save: Any) -> None:
    nodes = [helper.make_node("Add", ["x", "x"], ["y"])]
    with pytest.raises(ModelError, match="input 'x' has element type int32"):
        import_onnx(save(make_model(nodes, types={"x": TensorProto.INT32, "y": TensorProto.INT32})))


@pytest.mark.parametrize(
    ("name", "words"), [("attention_mask", "without 'attention_mask'"), ("x", "here Equal read")]
)
def test_the_remedy_for_integers_says_what_reads_them(make_model: Any, save: Any, name: str, words: str) -> None:
    nodes = [
        helper.make_node("Equal", [name, "one"], ["same"]),
        helper.make_node("Cast", ["same"], ["y"], to=TensorProto.FLOAT),
    ]
    model = make_model(nodes, {"one": np.ones(1, np.int64)}, inputs={name: (1, 4)}, types={name: TensorProto.INT64})
    with pytest.raises(ModelError) as refused:
        import_onnx(save(model))
    assert words in (refused.value.remedy or "")


def test_columns_of_which_each_numbers_the_rows_of_a_table_are_inputs_of_their_own(
    make_model: Any, save: Any, run_onnx: Any
) -> None:
    """What the remedy says, done: rows by categories that a network picks out of one input, or is given."""
    table, types = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32), {"x": TensorProto.INT64}
    pick = helper.make_node("Gather", ["x", "first"], ["column"], axis=1)
    constants, shape = {"t": table, "first": np.int64(0)}, {"x": (1, 2)}
    nodes = [pick, helper.make_node("Gather", ["t", "column"], ["y"])]
    with pytest.raises(ModelError, match="element type int64") as refused:
        import_onnx(save(make_model(nodes, constants, inputs=shape, types=types)))
    assert "here Gather read them: give what is made of them (positions, each column, say)" in refused.value.remedy
    nodes = [helper.make_node("Gather", ["t", "x"], ["y"])]
    model = import_onnx(save(make_model(nodes, {"t": table}, inputs={"x": (1,)}, types=types))).model
    assert np.array_equal(run_onnx(model.onnx_bytes, {"x": np.float32([3])})["y"], table[[3]])


def test_layers_out_of_order_are_sorted(make_model: Any, save: Any) -> None:
    nodes = [_relu("b", "y"), _relu("x", "c"), _relu("a", "b"), _relu("x", "a"), _relu("c", "z")]
    result = import_onnx(save(make_model(nodes, outputs={"y": None, "z": None})))
    assert _names(result.model) == ["c", "a", "b", "y", "z"]
    assert "the layers are brought into an order of execution" in result.notes


def test_order_of_outputs_and_inputs_is_kept(make_model: Any, save: Any) -> None:
    nodes = [_relu("b", "late"), _relu("a", "early"), helper.make_node("Add", ["late", "early"], ["both"])]
    shape = [1, 2]
    model = make_model(nodes, inputs={"b": shape, "a": shape}, outputs={"both": None, "early": None, "late": None})
    result = import_onnx(save(model)).model
    assert [spec.name for spec in result.inputs] == ["b", "a"]
    assert [spec.name for spec in result.outputs] == ["both", "early", "late"]


def test_annotations_of_the_training_machine_are_dropped(make_model: Any, save: Any) -> None:
    node = _relu("x", "y", "r")
    node.doc_string = "/home/someone/train.py"
    node.metadata_props.add(key="nnkit.fuse_into", value="y")
    model = make_model([node])
    model.metadata_props.add(key="author", value="/home/someone")
    data = import_onnx(save(model)).model.onnx_bytes
    assert b"someone" not in data
    assert b"fuse_into" not in data


def test_same_file_same_bytes(make_model: Any, save: Any) -> None:
    model = make_model(
        [_conv("x", "a"), helper.make_node("Clip", ["a"], ["y"], min=0.0, max=6.0)], {"w": WEIGHT}, opset=9
    )
    first, second = import_onnx(save(model, "one.onnx")), import_onnx(save(model, "two.onnx"))
    assert first.model.digest == second.model.digest
    assert model_file_digest(first.files[0]) == model_file_digest(second.files[0])


def test_functions_of_the_model_are_inlined(make_model: Any, save: Any, run_onnx: Any) -> None:
    model = make_model([helper.make_node("Twice", ["x"], ["y"], name="call", domain="own")])
    body = [helper.make_node("Relu", ["v"], ["r"]), helper.make_node("Add", ["r", "r"], ["out"])]
    opsets = [helper.make_opsetid("", 17)]
    model.functions.append(helper.make_function("own", "Twice", ["v"], ["out"], body, opsets))
    model.opset_import.append(helper.make_opsetid("own", 1))
    result = import_onnx(save(model))
    assert [node.op_type for node in result.model.proto().graph.node] == ["Relu", "Add"]
    x = np.random.default_rng(0).standard_normal((1, 4, 8, 8)).astype(np.float32)
    np.testing.assert_array_equal(run_onnx(result.model.onnx_bytes, {"x": x})["y"], np.maximum(x, 0) * 2)

    model.graph.node[0].name = "call_hp"
    with pytest.raises(ModelError, match="'call_hp' is a call of a function"):
        import_onnx(save(model))


@pytest.mark.parametrize("order", [1, -1])
def test_functions_that_stand_for_billions_of_layers_are_refused(make_model: Any, save: Any, order: int) -> None:
    """Each calls the one before it twice, and the first beside it; in a file of a few thousand bytes."""
    model = make_model([helper.make_node("F29", ["x"], ["y"], domain="own")])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    functions = [helper.make_function("own", "F0", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], opsets)]
    for at in range(1, 30):
        calls = [("F0", "a", "l"), (f"F{at - 1}", "l", "m"), (f"F{at - 1}", "m", "b")]
        nodes = [helper.make_node(name, [given], [result], domain="own") for name, given, result in calls]
        functions.append(helper.make_function("own", f"F{at}", ["a"], ["b"], nodes, opsets))
    model.functions.extend(functions[::order])
    model.opset_import.append(helper.make_opsetid("own", 1))
    with pytest.raises(
        ModelError, match="has 200,000,001 layers or more when its 30 functions are inlined; at most 20,000"
    ):
        import_onnx(save(model))


# Refusals


def test_operators_of_other_sets_and_unknown_ones_are_listed_together(make_model: Any, save: Any) -> None:
    nodes = [
        helper.make_node("FusedConv", ["x", "w"], ["a"], name="fused", domain="com.example"),
        helper.make_node("Rely", ["a"], ["b"], name="typo"),
        helper.make_node("FusedConv", ["b", "w"], ["c"], name="optimised", domain="com.microsoft"),
        helper.make_node("HardSwish", ["c"], ["y"], name="too_new"),
    ]
    with pytest.raises(ModelError) as caught:
        import_onnx(save(make_model(nodes, {"w": WEIGHT}, opset=11)))
    for part in (
        "fused (FusedConv): the operator set 'com.example' is not ONNX's own\n",
        "optimised (FusedConv): the operator set 'com.microsoft' is not ONNX's own; ONNX Runtime's optimiser",
        "typo (Rely): ONNX has no such operator in operator set 11\n",
        "too_new (HardSwish): ONNX has no such operator in operator set 11; export the network with operator set 14",
    ):
        assert part in caught.value.reason + "\n"


@pytest.mark.parametrize("equation", ["....,..->..", "bchw,cd->b\0d", "bchw->->", "b?hw", "..,ab->b"])
def test_what_is_no_equation_is_refused_before_shapes_are_inferred(make_model: Any, save: Any, equation: str) -> None:
    """ONNX's inference of shapes runs for ever at the first of them."""
    node = helper.make_node("Einsum", ["x", "w"], ["y"], name="mix", equation=equation)
    model = make_model([node], {"w": np.ones((4, 4), np.float32)})
    with pytest.raises(ModelError, match=r"mix \(Einsum\): .* is no equation") as caught:
        import_onnx(save(model))
    assert caught.value.remedy


@pytest.mark.parametrize("nodes", ["range", "doubled"])
def test_vectors_of_any_length_take_no_memory(make_model: Any, save: Any, nodes: str) -> None:
    """ONNX's inference follows the values of vectors one by one: 10^12 of them took the import's 6 GiB."""
    weights = {"zero": np.int64(0), "end": np.int64(10**12), "one": np.int64(1), "v": np.ones(1, np.int64)}
    if nodes == "range":
        made = [helper.make_node("Range", ["zero", "end", "one"], ["last"], name="long")]
    else:
        names = ["v", *(f"v{at}" for at in range(39)), "last"]
        made = [helper.make_node("Concat", [a, a], [b], axis=0) for a, b in itertools.pairwise(names)]
    made += [
        helper.make_node("Cast", ["last"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["f"], ["s"], keepdims=0),
        helper.make_node("Add", ["x", "s"], ["y"]),
    ]
    with pytest.raises(ModelError, match=r"in memory together here take [\d,]{17,} bytes; 2,147,483,648 are allowed"):
        import_onnx(save(make_model(made, weights)))


def test_training_mode_is_refused(make_model: Any, save: Any) -> None:
    stats = {name: np.ones(4, np.float32) for name in "sbmv"}
    norm = helper.make_node("BatchNormalization", ["x", *stats], ["a", "m2", "v2"], name="bn", training_mode=1)
    drop = helper.make_node("Dropout", ["a", "ratio", "on"], ["y"], name="drop")
    model = make_model([norm, drop], {**stats, "ratio": np.float32(0.5), "on": np.bool_(True)})
    with pytest.raises(ModelError, match=r"bn \(Batch(.|\n)*drop \(Dropout"):
        import_onnx(save(model))


NEWEST = onnx.defs.onnx_opset_version()


@pytest.mark.parametrize(
    ("opsets", "ir_version", "reason", "remedy"),
    [
        ([8], 8, "uses operator set 8; 9 is the oldest", f"from 9 to {NEWEST}, for example 17"),
        ([NEWEST + 1], 8, f"operator set {NEWEST + 1}; the installed onnx knows {NEWEST}", f"set {NEWEST} or older"),
        ([17, 18], 8, "it names 17 and 18", "export the network again"),
        ([17], 99, "IR version 99", "install"),
    ],
)
def test_versions_out_of_range(
    make_model: Any, save: Any, opsets: list[int], ir_version: int, reason: str, remedy: str
) -> None:
    model = make_model([_relu("x", "y")], opset=opsets[0], ir_version=ir_version)
    model.opset_import.extend(helper.make_opsetid("", each) for each in opsets[1:])
    with pytest.raises(ModelError) as caught:
        import_onnx(save(model))
    assert reason in caught.value.reason
    assert remedy in caught.value.remedy


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_no_numbers_name_tensor_and_layer(make_model: Any, save: Any, value: float) -> None:
    weight = WEIGHT.copy()
    weight[1, 2, 0, 0] = value
    with pytest.raises(ModelError, match="tensor 'w', read by layer 'conv7'"):
        import_onnx(save(make_model([_conv("x", "y", "conv7")], {"w": weight})))


def test_an_infinite_bound_is_fine(make_model: Any, save: Any) -> None:
    nodes = [helper.make_node("Clip", ["x", "low", "high"], ["y"])]
    constants = {"low": np.float32(0), "high": np.float32(np.inf)}
    assert import_onnx(save(make_model(nodes, constants))).model.outputs[0].shape == (1, 4, 8, 8)


def test_a_mask_in_front_of_a_softmax_may_hold_minus_infinity(make_model: Any, save: Any) -> None:
    mask = np.zeros((1, 4, 8, 8), np.float32)
    mask[..., 3:] = -np.inf
    nodes = [helper.make_node("Add", ["x", "m"], ["a"], "masking"), helper.make_node("Softmax", ["a"], ["y"])]
    assert import_onnx(save(make_model(nodes, {"m": mask}))).model.outputs[0].shape == (1, 4, 8, 8)
    with pytest.raises(ModelError, match="tensor 'm', read by layer 'masking', holds infinite numbers"):
        import_onnx(save(make_model(nodes, {"m": -mask})))
    other = [nodes[0], helper.make_node("Sigmoid", ["a"], ["y"])]
    with pytest.raises(ModelError, match="tensor 'm', read by layer 'masking', holds infinite numbers"):
        import_onnx(save(make_model(other, {"m": mask})))


def test_weights_that_do_not_fit_the_layer_name_it(make_model: Any, save: Any) -> None:
    with pytest.raises(ModelError, match="conv3"):
        import_onnx(save(make_model([_conv("x", "y", "conv3")], {"w": WEIGHT[:, :3]})))


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ([_relu("x", "y"), _relu("y", "y")], "produced twice"),
        ([_relu("x", "a")], "output 'y' is computed by no layer"),
        ([_relu("nowhere", "y", "r")], "layer 'r' reads value 'nowhere', which nothing computes"),
        ([_relu("b", "a", "r"), _relu("a", "b"), _relu("b", "y")], "layer 'r' depends on its own result"),
        ([helper.make_node("Relu", ["x", "x"], ["y"])], "breaks ONNX's rules|cannot be inferred"),
    ],
)
def test_broken_graphs(make_model: Any, save: Any, nodes: Any, reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        import_onnx(save(make_model(nodes)))


def test_places_of_inputs_that_are_left_out_behind_the_others_are_dropped(make_model: Any, save: Any) -> None:
    """ONNX Runtime's process ends on an empty name in the place of a LayerNormalization's bias."""
    node = helper.make_node("LayerNormalization", ["x", "scale", ""], ["y"], axis=-1)
    resize = helper.make_node("Resize", ["y", "", "twice", ""], ["z"], mode="nearest")
    constants = {"scale": np.ones(8, np.float32), "twice": np.array([1, 1, 2, 2], np.float32)}
    model = import_onnx(save(make_model([node, resize], constants, outputs={"z": None}))).model
    inputs = {node.op_type: list(node.input) for node in model.proto().graph.node}
    assert len(inputs["LayerNormalization"]) == 2
    assert inputs["Resize"][1] == ""
    assert len(inputs["Resize"]) == 3


def test_places_of_outputs_that_are_left_out_are_values_or_dropped(make_model: Any, save: Any, run_onnx: Any) -> None:
    rng = np.random.default_rng(4)
    constants = {
        "w": rng.normal(size=(1, 20, 4)).astype(np.float32),
        "r": rng.normal(size=(1, 20, 5)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Transpose", ["x"], ["steps"], perm=[1, 0, 2]),
        helper.make_node("LSTM", ["steps", "w", "r"], ["", "y", ""], name="lstm", hidden_size=5),
    ]
    path = save(make_model(nodes, constants, inputs={"x": [1, 6, 4]}))
    model = import_onnx(path).model
    assert list(model.proto().graph.node[1].output) == ["y.left_out", "y"]
    x = rng.normal(size=(1, 6, 4)).astype(np.float32)
    expected = run_onnx(path.read_bytes(), {"x": x})["y"]
    np.testing.assert_allclose(run_onnx(model.onnx_bytes, {"x": x})["y"], expected, rtol=1e-6)


@pytest.mark.parametrize("how", ["initializer", "Constant", "Identity", "shape"])
def test_outputs_that_no_input_reaches_are_left_out(make_model: Any, save: Any, run_onnx: Any, how: str) -> None:
    anchors = np.arange(6, dtype=np.float32)
    made = {
        "initializer": [],
        "Constant": [helper.make_node("Constant", [], ["anchors"], value=onnx.numpy_helper.from_array(anchors))],
        "Identity": [helper.make_node("Identity", ["numbers"], ["anchors"])],
        "shape": [helper.make_node("Shape", ["x"], ["n"]), helper.make_node("Cast", ["n"], ["anchors"], to=1)],
    }[how]
    constants = {"anchors" if how == "initializer" else "numbers": anchors}
    path = save(make_model([_relu("x", "y"), *made], constants, outputs={"anchors": None, "y": None}))
    result = import_onnx(path)
    assert [spec.name for spec in result.model.outputs] == ["y"]
    assert result.left_out == ("anchors",)
    assert (
        "output 'anchors' depends on no input and is left out: its values are the same at every run" in result.notes
    )
    x = np.random.default_rng(4).standard_normal((1, 4, 8, 8)).astype(np.float32)
    np.testing.assert_array_equal(run_onnx(result.model.onnx_bytes, {"x": x})["y"], np.maximum(x, 0))


def test_a_network_of_constants_alone_is_refused(make_model: Any, save: Any) -> None:
    model = make_model([helper.make_node("Identity", ["k"], ["y"])], {"k": np.ones(3, np.float32)})
    with pytest.raises(ModelError, match="no output of the network depends on its inputs: y"):
        import_onnx(save(model))


def test_an_operator_set_that_is_named_twice(make_model: Any, save: Any) -> None:
    model = make_model([_relu("x", "y")])
    model.opset_import.append(helper.make_opsetid("ai.onnx", 17))
    assert import_onnx(save(model)).model.outputs[0].shape == (1, 4, 8, 8)
    model.opset_import.append(helper.make_opsetid("", 13))
    with pytest.raises(ModelError, match="does not say which operator set it uses: it names 13 and 17"):
        import_onnx(save(model))


def test_operators_of_another_domain_are_named_by_it(make_model: Any, save: Any) -> None:
    """As scikit-learn's exporter writes them, which also names its operator set twice."""
    scaler = helper.make_node("Scaler", ["x"], ["y"], name="scale", domain="ai.onnx.ml", offset=[0.0], scale=[2.0])
    model = make_model([scaler], inputs={"x": [1, 4]})
    model.opset_import.extend([helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)])
    with pytest.raises(ModelError, match=r"scale \(Scaler\): the operator set 'ai\.onnx\.ml' is not ONNX's own"):
        import_onnx(save(model))

"""Export: what was imported comes back the same, ONNX operators become Caffe layers, the rest is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from caffe_reference import layers_of, node, onnx_model, reimported, relative_error, run_opencv
from google.protobuf import text_format
from onnx import numpy_helper
from random_network_inputs import random_inputs

from benchmarks.caffe_corpus import Case, cases, layer
from nnkit.caffe.export import CaffeFiles, caffe_network, export_caffe
from nnkit.caffe.schema import messages
from nnkit.graph import LayerTags, Model, ValueTags
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.importers import caffe_model, import_caffe

CASES = {case.name: case for case in cases()}
REAL = {
    "det1": ("mtcnn/det1.prototxt", "mtcnn/det1.caffemodel"),
    "det2": ("mtcnn/det2.prototxt", "mtcnn/det2.caffemodel"),
    "squeezenet": ("squeezenet_v10_dc/SqueezeNet_deploy.prototxt", "squeezenet_v10_dc/SqueezeNet_v1.0_dc.caffemodel"),
    "rfb": ("ulfg/RFB-320.prototxt", "ulfg/RFB-320.caffemodel"),
    "enet": ("enet_cityscapes/enet.prototxt", "enet_cityscapes/enet.caffemodel"),
    "res10": ("res10_ssd/res10_300x300_deploy.prototxt", "res10_ssd/res10_300x300_ssd_from_uint8.caffemodel"),
}


def of_case(case: Case) -> Model:
    return caffe_model(case.prototxt().encode(), case.caffemodel() if case.weights else b"").model


# --- round trip: the same network is the same bytes: nodes, names, attributes, metadata, weights, shapes


def assert_same_network(model: Model) -> CaffeFiles:
    files = export_caffe(model)
    again = reimported(files)
    assert again.onnx_bytes == model.onnx_bytes
    assert (again.tags, again.inputs, again.outputs) == (model.tags, model.inputs, model.outputs)
    second = export_caffe(again)
    assert (second.prototxt, second.caffemodel) == (files.prototxt, files.caffemodel)
    return files


@pytest.mark.parametrize("name", CASES)
def test_round_trip_of_every_layer(name: str) -> None:
    assert_same_network(of_case(CASES[name]))


@pytest.mark.parametrize("name", REAL)
def test_round_trip_of_real_networks(name: str, shared_dir: Path) -> None:
    prototxt, weights = (shared_dir / "models" / part for part in REAL[name])
    files = assert_same_network(import_caffe(prototxt, weights).model)
    original = text_format.Parse(prototxt.read_bytes(), messages.NetParameter(), allow_unknown_field=True)
    kept = [new for new in original.layer if new.type != "Input"]
    written = [new for new in layers_of(files) if new.type != "Input"]
    for old, new in zip(kept, written, strict=True):
        assert (old.name, old.type, list(old.bottom), list(old.top)) == (
            new.name,
            new.type,
            list(new.bottom),
            list(new.top),
        )


def test_in_place_layers_are_written_in_place() -> None:
    written = [
        (found.name, list(found.bottom), list(found.top))
        for found in layers_of(export_caffe(of_case(CASES["chain"])))
    ]
    assert written == [
        ("data", [], ["data"]),
        ("conv", ["data"], ["x"]),
        ("bn", ["x"], ["x"]),
        ("scale", ["x"], ["x"]),
        ("relu", ["x"], ["x"]),
        ("pool_report", ["x"], ["p"]),
        ("fc_hp", ["p"], ["y"]),
    ]


def test_a_changed_layer_is_written_as_it_is_now() -> None:
    """The metadata says stride 2 pooling and a slope of 0.1; the graph has been edited since."""
    case = CASES["relu_slope"]
    model = of_case(case)
    proto = model.proto()
    proto.graph.node[0].attribute[0].f = 0.5
    edited = Model(proto.SerializeToString(), model.tags, model.inputs, model.outputs, model.opset)
    found = layers_of(export_caffe(edited))[1]
    assert (found.name, found.type, found.relu_param.negative_slope) == ("op", "ReLU", 0.5)
    chain = of_case(CASES["chain"])
    proto = chain.proto()
    for tensor in proto.graph.initializer:
        if tensor.name == "conv.weight":
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * 2, "conv.weight"))
    edited = Model(proto.SerializeToString(), chain.tags, chain.inputs, chain.outputs, chain.opset)
    feeds = random_inputs(edited, 1)
    expected = FloatSession(edited).run(feeds)["y"]
    assert np.array_equal(FloatSession(reimported(export_caffe(edited))).run(feeds)["y"], expected)


# --- names, tags, outputs


def test_tags_become_suffixes_once() -> None:
    tags = LayerTags({"a": ValueTags(hp=True), "b": ValueTags(hp=True, cpu=True), "y": ValueTags(cpu=True)})
    nodes = [node("Relu", "x", "a", "one"), node("Sigmoid", "a", "b", "two_hp"), node("Tanh", "b", "y", "three")]
    files = export_caffe(onnx_model(nodes, tags=tags))
    assert [entry.name for entry in layers_of(files)[1:]] == ["one_hp", "two_hp_cpu", "three_cpu"]
    assert dict(files.layers) == {"one": ("one_hp",), "two_hp": ("two_hp_cpu",), "three": ("three_cpu",)}
    again = reimported(files)
    assert again.tags.of("a").hp
    assert again.tags.of("b").hp
    assert again.tags.of("b").cpu
    assert again.tags.of("y").cpu


def test_only_the_end_of_a_name_is_a_tag_to_the_mapper() -> None:
    """`conv_hp_1` is tagged here, and is no `_hp` layer to the mapper unless it ends so; a number goes before it."""
    hp = ValueTags(hp=True)
    nodes = [
        node("Relu", "x", "a", "conv_hp_1"),
        node("Sqrt", "a", "b", "root_hp"),
        node("Relu", "b", "c", "same_hp"),
        node("Relu", "c", "y", "same"),
    ]
    files = export_caffe(onnx_model(nodes, tags=LayerTags({"a": hp, "b": hp, "c": hp, "y": hp})))
    assert [entry.name for entry in layers_of(files)[1:]] == ["conv_hp_1_hp", "root_hp", "same_hp", "same_2_hp"]


def test_every_layer_that_a_tagged_node_becomes_ends_with_the_tag() -> None:
    nodes = [node("Exp", "x", "a", "power"), node("Div", "x a", "y", "share_hp")]
    files = export_caffe(onnx_model(nodes, tags=LayerTags({"y": ValueTags(hp=True)})))
    names = [entry.name for entry in layers_of(files)[2:]]
    assert len(names) > 1
    assert all(name.endswith("_hp") and name.count("_hp") == 1 for name in names)


def test_an_output_that_is_read_too() -> None:
    model = onnx_model([node("Relu", "x", "a", "one"), node("Tanh", "a", "y", "two")], outputs=["a", "y"])
    feeds = random_inputs(model, 4)
    expected = FloatSession(model).run(feeds)
    split = export_caffe(model)
    found = FloatSession(reimported(split)).run(feeds)
    assert {name: array.tolist() for name, array in found.items()} == {n: a.tolist() for n, a in expected.items()}
    assert any("Split" in note for note in split.notes)
    plain = caffe_network(model, split_read_outputs=False)
    message = text_format.Parse(plain.prototxt("net"), messages.NetParameter())
    assert [(list(entry.bottom), list(entry.top)) for entry in message.layer[1:]] == [(["x"], ["a"]), (["a"], ["y"])]
    assert plain.notes == ()


def test_operators_of_our_own_without_their_origin() -> None:
    """The metadata gone, as after a rewrite: the generic rules write the same layers again."""

    def bare(model: Model) -> Model:
        proto = model.proto()
        for entry in proto.graph.node:
            del entry.metadata_props[:]
        return Model(proto.SerializeToString(), model.tags, model.inputs, model.outputs, model.opset)

    strip: Callable[[Model], Model] = bare
    for name in (
        "pass_through",
        "reorg",
        "prior_box",
        "detection",
        "proposal",
        "roi",
        "psroi",
        "normalize",
        "warp",
        "custom",
    ):
        model = strip(of_case(CASES[name]))
        again = strip(reimported(export_caffe(model)))
        nodes, found = model.proto().graph.node, again.proto().graph.node
        assert [n.SerializeToString() for n in found] == [n.SerializeToString() for n in nodes], name


def test_the_text_is_written_as_people_write_it() -> None:
    text = export_caffe(of_case(CASES["conv_padded"]), name="tiny").prototxt
    assert text.startswith('name: "tiny"\nlayer {\n  name: "data"\n  type: "Input"\n  top: "data"\n  input_param {\n')
    assert text.endswith(
        'layer {\n  name: "op"\n  type: "Convolution"\n  bottom: "data"\n  top: "out"\n  convolution_param {\n'
        "    num_output: 6\n    pad: 1\n    kernel_size: 3\n    stride: 2\n  }\n}\n"
    )
    assert layer("ReLU") not in text


@pytest.mark.parametrize("name", ["det1", "det2", "squeezenet", "rfb"])
def test_what_is_written_computes_the_same_in_opencv(name: str, shared_dir: Path) -> None:
    model = import_caffe(*(shared_dir / "models" / part for part in REAL[name])).model
    _assert_opencv_agrees(model)


@pytest.mark.parametrize("name", ["det2"])
def test_restructured_networks_are_written_as_they_have_become(name: str, shared_dir: Path) -> None:
    """The default rewrites fold, fuse and reorder; some layers are then written anew, some as they were."""
    from nnkit.rewrite import resolve_rules, restructure
    from nnkit.rewrite.catalogue import DEFAULT_RULES

    model = import_caffe(*(shared_dir / "models" / part for part in REAL[name])).model
    restructured = restructure(model, resolve_rules(DEFAULT_RULES))[0]
    assert restructured.onnx_bytes != model.onnx_bytes
    _assert_opencv_agrees(restructured)


def _assert_opencv_agrees(model: Model) -> None:
    files = export_caffe(model)
    feeds = random_inputs(model, 9)
    expected = FloatSession(model).run(feeds)
    makers = {top: entry.name for entry in layers_of(files) for top in entry.top}
    outputs = {files.blobs[value]: makers[files.blobs[value]] for value in expected}
    seen = run_opencv(files.prototxt.encode(), files.caffemodel, feeds, outputs)
    again = FloatSession(reimported(files)).run(feeds)
    for value, array in expected.items():
        assert relative_error(seen[files.blobs[value]], array) < 1e-4
        assert relative_error(again[files.blobs[value]], array) < 1e-5

"""The emitted pair: OpenCV computes real networks from it as ONNX Runtime does; names, tags, Custom layers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format
from nnie_networks import Net, in_opencv

from benchmarks.caffe_corpus import caffemodel
from nnkit.caffe.schema import messages
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.importers.caffe_importer import caffe_model, import_caffe
from nnkit_nnie.limits.context import Division
from nnkit_nnie.mapper.caffe_pair import CaffePair, caffe_pair, safe_name
from nnkit_nnie.network import Network
from nnkit_nnie.segments import divide

MIXED = Division("hi3516cv500", compile_mode=2)


@pytest.mark.parametrize(
    ("prototxt", "weights"),
    [
        ("squeezenet_v10_dc/SqueezeNet_deploy.prototxt", "squeezenet_v10_dc/SqueezeNet_v1.0_dc.caffemodel"),
        ("mtcnn/det1.prototxt", "mtcnn/det1.caffemodel"),
        ("mtcnn/det2.prototxt", "mtcnn/det2.caffemodel"),
    ],
)
def test_opencv_computes_the_emitted_pair(prototxt: str, weights: str, shared_dir: Path):
    model = import_caffe(shared_dir / "models" / prototxt, shared_dir / "models" / weights).model
    pair = caffe_pair(divide(model, MIXED))
    read = in_opencv(pair)
    sample = np.random.default_rng(0).uniform(-1.0, 1.0, model.inputs[0].shape).astype(np.float32)
    read.setInput(sample)
    names = [spec.name for spec in model.outputs]
    expected = FloatSession(model).run({model.inputs[0].name: sample})
    for name, got in zip(names, read.forward([pair.blobs[n] for n in names]), strict=True):
        scale = float(np.abs(expected[name]).max())
        np.testing.assert_allclose(got.ravel(), expected[name].ravel(), rtol=1e-4, atol=1e-4 * scale)


def built() -> tuple[Network, CaffePair]:
    net = Net(3)
    x = net.conv(net.input("data", 3, 16, 16), (3, 4), "first/with a name that is too long for it")
    x = net.clip(x, "unknown")
    x = net.tag(net.conv(x, (4, 4), "a_name_of_thirty_one_characters"), hp=True)
    x = net.tag(net.node("Exp", [x], "exponential"), cpu=True)
    network = divide(net.model(net.conv(x, (4, 4), "head")), MIXED)
    return network, caffe_pair(network)


def test_names_fit_and_carry_their_tags():
    network, pair = built()
    written = [name for names in pair.layers.values() for name in names]
    assert len(set(written)) == len(written)
    assert all(len(name.encode()) <= 31 for name in (*written, *pair.blobs.values()))
    (hp,) = pair.layers["a_name_of_thirty_one_characters"]
    assert hp.endswith("_hp")
    assert pair.layers["exponential"] == ("exponential_cpu",)
    assert pair.layers["head"] == ("head",)
    assert set(pair.layers) == {layer.name for layer in network.layers}


def test_a_long_name_keeps_its_tag_at_the_end():
    net = Net(4)
    x = net.tag(net.conv(net.input("data", 3, 8, 8), (3, 4), "a_name_of_more_than_thirty_two_characters_hp"), hp=True)
    x = net.tag(net.conv(x, (4, 4), "conv_hp_1"), hp=True)
    pair = caffe_pair(divide(net.model(x), MIXED))
    (long,), (middle,) = pair.layers.values()
    assert len(long) <= 31
    assert long.endswith("_hp")
    assert middle == "conv_hp_1_hp"


def test_unknown_layers_are_custom_with_shapes():
    _, pair = built()
    block = next(part for part in pair.caffe.prototxt("net").split("layer {") if 'name: "unknown"' in part)
    assert 'type: "Custom"' in block
    assert [line.split()[1] for line in block.splitlines() if line.strip().startswith("dim:")] == [
        "1",
        "4",
        "16",
        "16",
    ]


def test_the_pair_is_read_again_as_the_same_layers():
    network, pair = built()
    again = caffe_model(pair.caffe.prototxt("net").encode(), pair.caffe.caffemodel("net")).model
    names = [node.name for node in again.proto().graph.node]
    positions = [names.index(pair.layers[layer.name][0]) for layer in network.layers]
    assert positions == sorted(positions)
    assert again.tags.of(pair.blobs["a_name_of_thirty_one_characters"]).hp
    assert again.tags.of(pair.blobs["exponential"]).cpu


@pytest.mark.parametrize("name", ["middle", "middle_report", "a_name_of_twenty-seven_bytes", "x" * 40])
def test_an_output_that_is_read_too_is_reported(name: str):
    """Caffe gives out only what no layer reads: the end of its blob's name tells the mapper of such an output."""
    net = Net(5)
    middle = net.conv(net.input("data", 3, 8, 8), (3, 4), name)
    end = net.node("Relu", [middle], "end")
    pair = caffe_pair(divide(net.model(middle, end), MIXED))
    blob = pair.blobs[middle]
    assert blob.startswith(name[:17])
    assert blob.endswith("_report")
    assert blob.count("_report") == 1
    assert len(blob.encode()) <= 31
    layers = text_format.Parse(pair.caffe.prototxt("net"), messages.NetParameter()).layer
    assert [(list(layer.bottom), list(layer.top)) for layer in layers[1:]] == [(["data"], [blob]), ([blob], ["end"])]


def test_safe_names():
    assert safe_name("conv1") == "conv1"
    assert safe_name("fire2/conv 1") == "fire2_conv_1"
    long = [safe_name("x" * 40 + end) for end in "ab"]
    assert len(set(long)) == 2
    assert all(len(name) == 31 for name in long)
    assert len(safe_name("x" * 40, "_report", 31)) == 31


def test_layers_that_the_exporter_adds_have_short_names_too():
    """A BatchNormalization with scale is two layers of Caffe; OpenCV reads both, and computes the network."""
    net = Net(6)
    x, names = net.input("data", 3, 8, 8), []
    for index in (1, 2):  # names that differ at their ends, behind what is cut off
        names.append(f"a_normalisation_with_a_long_name_{index}")
        one = [net.constant(f"{names[-1]}.{part}", net.random.uniform(0.5, 2, 3)) for part in ("s", "b", "m", "v")]
        x = net.node("BatchNormalization", [x, *one], names[-1])
    x = net.tag(net.conv(x, (3, 4), "conv"), hp=True)
    normalised = net.node("BatchNormalization", [x, *[net.constant(f"c{i}", np.ones(4)) for i in range(4)]], "n" * 29)
    net.tag(normalised, hp=True)
    model = net.model(normalised)
    pair = caffe_pair(divide(model, MIXED))
    message = text_format.Parse(pair.caffe.prototxt("net"), messages.NetParameter())
    written = [layer.name for layer in message.layer]
    blobs = {blob for layer in message.layer for blob in layer.top}
    assert len(set(written)) == len(written) == 8  # the input, four times two, less the convolution's one
    assert max(len(name.encode()) for name in (*written, *blobs)) == 31
    assert all(name.endswith("_hp") for name in pair.layers["n" * 29])
    assert [len(pair.layers[name]) for name in names] == [2, 2]
    sample = np.random.default_rng(0).uniform(-1, 1, (1, 3, 8, 8)).astype(np.float32)
    read = in_opencv(pair)
    read.setInput(sample)
    expected = FloatSession(model).run({"data": sample})[normalised]
    np.testing.assert_allclose(read.forward(), expected, rtol=0, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("kind", ["ConvolutionDepthwise", "DepthwiseConvolution"])
def test_depthwise_types_that_the_mapper_does_not_read_are_convolutions_of_groups(kind: str, tmp_path: Path):
    """A file that leaves the groups to the type: OpenCV, which has no such type either, reads what is written."""
    prototxt = (
        'input: "data" input_shape { dim: 1 dim: 4 dim: 8 dim: 8 }\n'
        f'layer {{ name: "dw" type: "{kind}" bottom: "data" top: "dw"\n'
        "  convolution_param { num_output: 4 kernel_size: 3 pad: 1 } }\n"
        'layer { name: "relu" type: "ReLU" bottom: "dw" top: "dw" }\n'
    )
    (tmp_path / "net.prototxt").write_text(prototxt)
    weight = np.random.default_rng(0).normal(size=(4, 1, 3, 3)).astype(np.float32)
    (tmp_path / "net.caffemodel").write_bytes(caffemodel({"dw": [weight, np.ones(4, np.float32)]}))
    model = import_caffe(tmp_path / "net.prototxt", tmp_path / "net.caffemodel").model
    pair = caffe_pair(divide(model, MIXED))
    assert pair.layers == {"dw": ("dw", "relu")}
    assert f'type: "{kind}"' not in pair.caffe.prototxt("n")
    assert "group: 4" in pair.caffe.prototxt("n")
    image = np.random.default_rng(1).normal(size=(1, 4, 8, 8)).astype(np.float32)
    read = in_opencv(pair)
    read.setInput(image)
    np.testing.assert_allclose(read.forward(), FloatSession(model).run({"data": image})["dw"], atol=1e-5)

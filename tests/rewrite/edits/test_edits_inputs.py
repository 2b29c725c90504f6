"""replace_input and merge_components: image by image, crop by crop, against the original in ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from caffe_reference import layers_of
from pydantic import ValidationError

from benchmarks.caffe_corpus import caffemodel, layer
from nnkit.caffe.export import export_caffe
from nnkit.errors import RecipeError
from nnkit.graph import InputSpec
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.importers import import_caffe
from nnkit.recipe.restructure import MergeComponents, ReplaceInput, RuleEntry
from nnkit.recipe.types import RecipePath
from nnkit.rewrite import resolve_steps, restructure_steps
from nnkit.rewrite.edits import merge_components, replace_input


def replaced(model, **options):
    return restructure_steps(model, [replace_input.make(ReplaceInput(**options))])


def body(net, x, images):
    x = net.op("Relu", net.conv(x, (5, 3, 3, 3), name="conv", strides=[2, 2]), name="relu")
    x = net.op("MaxPool", net.batch_norm(x, 5, name="bn"), name="pool", kernel_shape=[2, 2], strides=[2, 2])
    x = net.op("Mul", x, net.normal(1, 5, 1, 1), name="scale")
    x = net.op("Reshape", x, net.ints(images, -1), name="flat")
    x = net.op("Gemm", x, net.normal(20, 8), net.normal(8), name="fc")
    x = net.op("Softmax", net.op("Transpose", net.op("Reshape", x, net.ints(-1, 2, 4)), perm=[0, 2, 1]), axis=2)
    return net.op("Reshape", x, net.ints(0, 8), name="feature")


def test_an_input_of_several_images(graphs):
    net = graphs.Net(data=(4, 3, 12, 12))
    model = net.model(body(net, "data", 4))
    done = replaced(model)
    assert done.model.inputs == (InputSpec("data", (1, 3, 12, 12)),)
    images = np.random.default_rng(0).normal(0, 1, (4, 3, 12, 12)).astype(np.float32)
    (all_of_them,) = graphs.run(model, {"data": images})
    for index in range(4):
        (one,) = graphs.run(done.model, {"data": images[index : index + 1]})
        np.testing.assert_allclose(one, all_of_them[index : index + 1], rtol=0, atol=1e-6)
    assert done.reference.digest == done.model.digest


@pytest.mark.parametrize("kept", ["left", "right"])
@pytest.mark.parametrize("with_pca", [False, True])
def test_the_halves_of_a_face(graphs, kept, with_pca):
    net = graphs.Net(left=(1, 3, 12, 12), right=(1, 3, 12, 12))
    both = net.op("Concat", "left", "right", axis=0, name="halves")
    feature = body(net, both, 2)
    out = net.op("Reshape", feature, net.ints(1, 16), name="face")
    if with_pca:
        out = net.op("Gemm", out, net.normal(16, 4), name="pca")
    model = net.model(out)
    done = replaced(model, input=kept)
    assert done.model.inputs == (InputSpec(kept, (1, 3, 12, 12)),)
    assert [output.name for output in done.model.outputs] == ["feature_v"]
    rng = np.random.default_rng(0)
    feeds = {name: rng.normal(0, 1, (1, 3, 12, 12)).astype(np.float32) for name in ("left", "right")}
    both_features = graphs.run(net.model(feature), feeds)[0]
    for index, name in enumerate(("left", "right")):
        (one,) = graphs.run(done.model, {kept: feeds[name]})
        np.testing.assert_allclose(one[0], both_features[index], rtol=0, atol=1e-6)
    assert "because 'face' brings the images together" in done.log.of("replace_input").effect


def test_what_does_not_depend_on_the_images_stays(graphs):
    net = graphs.Net(data=(2, 3, 12, 12), other=(1, 4))
    model = net.model(body(net, "data", 2), net.op("Relu", "other"))
    done = replaced(model)
    assert [spec.shape for spec in done.model.inputs] == [(1, 3, 12, 12), (1, 4)]
    assert len(done.model.outputs) == 2


def test_replace_input_refusals(graphs):
    net = graphs.Net(data=(1, 3, 12, 12))
    one = net.model(body(net, "data", 1))
    with pytest.raises(RecipeError, match="takes one image already"):
        replaced(one)
    with pytest.raises(RecipeError, match="no input 'date'"):
        replaced(one, input="date")
    net = graphs.Net(left=(1, 3, 12, 12), right=(1, 3, 12, 12))
    flipped = net.op("Neg", "right", name="neg")
    model = net.model(body(net, net.op("Concat", "left", flipped, axis=0, name="halves"), 2))
    with pytest.raises(RecipeError, match="'halves' concatenates images that earlier layers have changed"):
        replaced(model)


def component(graphs, seed, size=8, width=6, hp=(), axes=2):
    net = graphs.Net(image=(1, 1, size, size), seed=seed)
    x = net.op("Relu", net.conv("image", (width, 1, size, size), name="conv"), name="relu")
    return net.model(net.op("Flatten", x, name="feature") if axes == 2 else x, hp=hp)


@pytest.mark.parametrize("axes", [2, 4])
def test_crops_share_the_weights(graphs, axes):
    model = component(graphs, 1, hp=["conv"], axes=axes)
    options = MergeComponents(components=[{"inputs": ["face", "face_flipped"]}])
    done = restructure_steps(model, [merge_components.make(options)])
    rng = np.random.default_rng(0)
    feeds = {name: rng.normal(0, 1, (1, 1, 8, 8)).astype(np.float32) for name in ("face", "face_flipped")}
    wanted = np.concatenate([graphs.run(model, {"image": image})[0] for image in feeds.values()], axis=1)
    np.testing.assert_array_equal(graphs.run(done.model, feeds)[0], wanted)
    assert [output.shape for output in done.model.outputs] == [wanted.shape]
    proto = done.model.proto()
    assert len(proto.graph.initializer) == len(model.proto().graph.initializer)
    assert [node.name for node in proto.graph.node if node.op_type == "Conv"] == ["face_conv", "face_flipped_conv"]
    assert done.model.tags.of("face_conv_v").hp
    assert done.model.tags.of("face_flipped_conv_v").hp


def test_eight_inputs_of_four_components(graphs, tmp_path):
    models = [component(graphs, seed, size=8 + seed, width=4 + seed) for seed in range(4)]
    for index, model in enumerate(models):
        onnx.save(model.proto(), tmp_path / f"c{index}.onnx")
    components = [
        {
            "model": None if index == 0 else RecipePath.of(tmp_path / f"c{index}.onnx"),
            "inputs": [f"comp{index}", f"comp{index}_flip"],
        }
        for index in range(4)
    ]
    entry = RuleEntry(merge_components={"components": components, "output": "feat"})
    done = restructure_steps(models[0], resolve_steps([entry, "fc_to_conv"]))
    assert len(done.model.inputs) == 8
    rng = np.random.default_rng(0)
    feeds = {spec.name: rng.normal(0, 1, spec.shape).astype(np.float32) for spec in done.model.inputs}
    parts = [graphs.run(models[i // 2], {"image": feeds[spec.name]})[0] for i, spec in enumerate(done.model.inputs)]
    (found,) = graphs.run(done.model, feeds)
    np.testing.assert_allclose(found, np.concatenate(parts, axis=1), rtol=0, atol=1e-6)
    assert done.model.outputs[0].shape == (1, 2 * (4 + 5 + 6 + 7))


def caffe_files(folder, stem="caffe"):
    """A prototxt and caffemodel: a layer in place, a tag, an operator of nnkit's own domain, a reduction."""
    text = (
        f'name: "{stem}"\ninput: "data"\ninput_dim: 1\ninput_dim: 1\ninput_dim: 8\ninput_dim: 8\n'
        + layer("Convolution", "convolution_param { num_output: 4 kernel_size: 3 }", tops="c", name="conv_hp")
        + layer("BatchNorm", bottoms="c", tops="c", name="bn")
        + layer(
            "Normalize",
            "norm_param { across_spatial: false channel_shared: false }",
            bottoms="c",
            tops="n",
            name="norm",
        )
        + layer("Reduction", "reduction_param { operation: MEAN axis: 2 }", bottoms="n", tops="r", name="mean")
        + layer("InnerProduct", "inner_product_param { num_output: 5 }", bottoms="r", tops="f", name="fc")
    )
    rng = np.random.default_rng(3)
    shapes = {"conv_hp": [(4, 1, 3, 3), (4,)], "norm": [(4,)], "fc": [(5, 4), (5,)]}
    arrays = {
        name: [rng.normal(0, 1, shape).astype(np.float32) for shape in listed] for name, listed in shapes.items()
    }
    arrays["bn"] = [np.ones(4, np.float32), np.full(4, 2, np.float32), np.float32([1])]
    (folder / f"{stem}.prototxt").write_text(text)
    (folder / f"{stem}.caffemodel").write_bytes(caffemodel(arrays))
    return folder / f"{stem}.prototxt", folder / f"{stem}.caffemodel"


@pytest.mark.parametrize("opset", [17, 21])
def test_a_caffe_component_beside_one_of_onnx(graphs, tmp_path, opset):
    """Caffe comes as operator set 17, in which the axes of a reduction are an attribute; in 21 they are an input."""
    prototxt, weights = caffe_files(tmp_path)
    net = graphs.Net(image=(1, 1, 8, 8), opset=opset)
    x = net.op("Relu", net.conv("image", (6, 1, 8, 8), name="conv"), name="relu")
    model = net.model(net.op("Flatten", x, name="feature"))
    component = {"model": RecipePath.of(prototxt), "weights": RecipePath.of(weights), "inputs": ["c", "c_flip"]}
    entry = RuleEntry(merge_components={"components": [{"inputs": ["a", "b"]}, component]})
    done = restructure_steps(model, resolve_steps([entry]))
    assert done.model.opset == opset
    rng = np.random.default_rng(0)
    feeds = {name: rng.normal(0, 1, (1, 1, 8, 8)).astype(np.float32) for name in ("a", "b", "c", "c_flip")}
    caffe = import_caffe(prototxt, weights).model
    wanted = [graphs.run(model, {"image": feeds[name]})[0] for name in ("a", "b")]
    wanted += [FloatSession(caffe).run({"data": feeds[name]})["f"] for name in ("c", "c_flip")]
    found = FloatSession(done.model).run(feeds)["features"]
    np.testing.assert_allclose(found, np.concatenate(wanted, axis=1), rtol=0, atol=1e-6)
    assert done.model.tags.of("c_c_before_bn").hp
    assert done.model.tags.of("c_flip_c_before_bn").hp
    # Each copy is written to Caffe as the layers that it was: in place where they were, with their weights.
    written = [entry for entry in layers_of(export_caffe(done.model)) if entry.name.startswith("c_")]
    for copy in ("c", "c_flip"):
        kinds = {entry.name.removeprefix(f"{copy}_"): entry.type for entry in written}
        assert {"conv_hp": "Convolution", "bn": "BatchNorm", "norm": "Normalize", "fc": "InnerProduct"}.items() <= (
            kinds.items()
        )
        (norm,) = (entry for entry in written if entry.name == f"{copy}_bn")
        assert norm.bottom[0] == norm.top[0] == f"{copy}_c"


def test_a_recipe_of_caffe_with_a_component_of_onnx(graphs, tmp_path):
    caffe = import_caffe(*caffe_files(tmp_path)).model
    net = graphs.Net(image=(1, 1, 8, 8), opset=21)
    model = net.model(net.op("Flatten", net.conv("image", (6, 1, 8, 8), name="conv"), name="feature"))
    onnx.save(model.proto(), tmp_path / "other.onnx")
    components = [{"inputs": ["a"]}, {"model": RecipePath.of(tmp_path / "other.onnx"), "inputs": ["b"]}]
    done = restructure_steps(caffe, resolve_steps([RuleEntry(merge_components={"components": components})]))
    rng = np.random.default_rng(0)
    feeds = {name: rng.normal(0, 1, (1, 1, 8, 8)).astype(np.float32) for name in ("a", "b")}
    wanted = [FloatSession(caffe).run({"data": feeds["a"]})["f"], graphs.run(model, {"image": feeds["b"]})[0]]
    found = FloatSession(done.model).run(feeds)["features"]
    np.testing.assert_allclose(found, np.concatenate(wanted, axis=1), rtol=0, atol=1e-6)
    assert done.reference.inputs == (InputSpec("a", (1, 1, 8, 8)), InputSpec("b", (1, 1, 8, 8)))


def test_names_that_add_up_to_one(graphs):
    """Input `face` with a layer `flip_conv`, and input `face_flip` with a layer `conv`."""
    first = component(graphs, 1)
    net = graphs.Net(image=(1, 1, 8, 8), seed=2)
    x = net.conv("image", (3, 1, 8, 8), name="conv")
    x = net.op("Flatten", net.op("Relu", x, name="flip_conv"), name="flip_feature")
    second = net.model(net.op("Relu", x, name="feature"))
    copies = [merge_components._Copy("face", second, 0), merge_components._Copy("face_flip", first, 1)]
    merged = merge_components.merge(copies, "features")
    assert len({node.name for node in merged.proto().graph.node}) == len(merged.proto().graph.node)
    rng = np.random.default_rng(0)
    feeds = {name: rng.normal(0, 1, (1, 1, 8, 8)).astype(np.float32) for name in ("face", "face_flip")}
    wanted = [graphs.run(copy.model, {"image": feeds[copy.input]})[0] for copy in copies]
    np.testing.assert_array_equal(graphs.run(merged, feeds)[0], np.concatenate(wanted, axis=1))


def test_a_component_of_caffe_needs_both_files():
    with pytest.raises(ValidationError, match="needs its weights"):
        MergeComponents(components=[{"model": "net.prototxt", "inputs": ["a"]}])
    with pytest.raises(ValidationError, match="weights without a network"):
        MergeComponents(components=[{"weights": "net.caffemodel", "inputs": ["a"]}])
    with pytest.raises(ValidationError, match="holds its weights itself"):
        MergeComponents(components=[{"model": "net.onnx", "weights": "net.caffemodel", "inputs": ["a"]}])


def test_a_fully_connected_layer_of_caffe_that_became_a_convolution(tmp_path):
    """No node says any more that it is the InnerProduct, which would have limits of its own on the NNIE."""
    model = import_caffe(*caffe_files(tmp_path)).model
    done = restructure_steps(model, resolve_steps(["fc_to_conv"]))
    nodes = {node.name: node for node in done.model.proto().graph.node}
    assert nodes["fc"].op_type == "Conv"
    assert "InnerProduct" not in {entry.value for node in nodes.values() for entry in node.metadata_props}
    kinds = [entry.type for entry in layers_of(export_caffe(done.model))]
    assert kinds.count("Convolution") == 2
    assert "InnerProduct" not in kinds


@pytest.mark.parametrize(
    ("components", "reason"),
    [
        ([{"inputs": ["a", "b"]}, {"inputs": ["a"]}], "input 'a' is named 2 times"),
        ([{"inputs": ["a"]}, {"inputs": ["b"], "model": "two.onnx"}], "has 1 inputs and 2 outputs"),
        ([{"inputs": ["a"]}, {"inputs": ["b"], "model": "map.onnx"}], "gives [1, 2, 3, 3]"),
        ([{"inputs": ["a"]}, {"inputs": ["b"], "model": "flat.onnx"}], "the first component [1, 6]"),
        ([{"inputs": ["a"], "model": "none.onnx"}], "does not exist"),
        ([{"inputs": ["a"], "model": "n.prototxt", "weights": "none.caffemodel"}], "does not exist"),
        ([{"inputs": ["a", "features"]}], "'features' is an input and the output"),
    ],
)
def test_merge_refusals(graphs, tmp_path, monkeypatch, components, reason):
    monkeypatch.chdir(tmp_path)
    net = graphs.Net(image=(1, 1, 5, 5))
    x = net.conv("image", (2, 1, 3, 3), name="conv")
    onnx.save(net.model(x, net.op("Flatten", x)).proto(), "two.onnx")
    onnx.save(net.model(x).proto(), "map.onnx")
    onnx.save(component(graphs, 1, axes=4).proto(), "flat.onnx")
    entry = RuleEntry(merge_components={"components": components})
    with pytest.raises(RecipeError) as caught:
        restructure_steps(component(graphs, 0), resolve_steps([entry]))
    assert reason in caught.value.reason
    assert caught.value.remedy

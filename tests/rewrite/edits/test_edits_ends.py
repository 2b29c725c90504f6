"""replace_tail, keep_output, drop_output, strip_var, mean_normalize: against numpy on the original's values."""

from __future__ import annotations

import numpy as np
import pytest

from nnkit.errors import RecipeError
from nnkit.recipe.restructure import RuleEntry
from nnkit.recipe.types import RecipePath
from nnkit.rewrite import resolve_steps, restructure_steps
from nnkit.rewrite.pca import Pca, read_pca, write_pca


def apply(model, *entries):
    return restructure_steps(model, resolve_steps([RuleEntry(**e) if isinstance(e, dict) else e for e in entries]))


def run(graphs, model, seed=3):
    rng = np.random.default_rng(seed)
    feeds = {spec.name: rng.normal(0, 2, spec.shape).astype(np.float32) for spec in model.inputs}
    return dict(zip((spec.name for spec in model.outputs), graphs.run(model, feeds), strict=True))


def trained(graphs, tail=True):
    """A descriptor with a training tail (a classifier), an auxiliary head and a side output."""
    net = graphs.Net(image=(1, 3, 8, 8))
    trunk = net.op("Relu", net.conv("image", (6, 3, 3, 3), name="conv1", pads=[1, 1, 1, 1]), name="relu1")
    middle = net.op("Relu", net.conv(trunk, (6, 6, 3, 3), name="conv2", pads=[1, 1, 1, 1]), name="relu2")
    aux = net.op("GlobalAveragePool", net.conv(trunk, (2, 6, 1, 1), name="aux_conv"), name="aux_pool")
    feature = net.op("Flatten", net.conv(middle, (10, 6, 8, 8), name="feature_conv"), name="feature")
    logits = net.op("Gemm", feature, net.normal(10, 4), name="classifier")
    return net, net.op("Softmax", logits, name="probability") if tail else feature, aux, feature


@pytest.fixture
def pca_file(tmp_path):
    rng = np.random.default_rng(1)
    path = tmp_path / "pca.npz"
    write_pca(path, Pca(rng.normal(0, 0.1, 10), rng.normal(0, 1, (10, 4))))
    return RecipePath.of(path), read_pca(path)


@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("rebuilt", [False, True])
def test_replace_tail(graphs, pca_file, reduce, rebuilt):
    file, pca = pca_file
    net, out, aux, feature = trained(graphs)
    model = net.model(out, aux)
    tail = [{"kind": "norm", "reduce": reduce, "a": 1.0}, {"kind": "pca", "file": file, "hp": True}]
    done = apply(model, {"replace_tail": {"at": "feature", "tail": tail}}, *(["norm_from_concat"] if rebuilt else []))
    x = run(graphs, net.model(feature))["feature_v"].astype(np.float64)
    total = np.sum(x**2) if reduce == "sum" else np.mean(x**2)
    wanted = (x / np.sqrt(total + 1.0) - pca.mean) @ pca.matrix
    after = run(graphs, done.model)
    assert list(after) == ["pca", "aux_pool_v"]
    np.testing.assert_allclose(after["pca"], wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
    np.testing.assert_array_equal(after["aux_pool_v"], run(graphs, model)["aux_pool_v"])
    ops = graphs.ops(done.model)
    assert ("Concat" in ops, "Div" in ops) == (rebuilt, not rebuilt)
    assert done.model.tags.of("pca").hp
    assert "probability" not in [node.name for node in done.model.proto().graph.node]
    assert "'probability_v' gave way to 'pca'" in done.log.of("replace_tail").effect


def test_replace_tail_with_nothing_and_softmax(graphs):
    net, out, _, feature = trained(graphs)
    model = net.model(out)
    x = run(graphs, net.model(feature))["feature_v"]
    bare = apply(model, {"replace_tail": {"at": "feature_v"}})
    np.testing.assert_array_equal(run(graphs, bare.model)["feature_v"], x)
    soft = apply(model, {"replace_tail": {"at": "feature", "tail": [{"kind": "softmax"}]}})
    powers = np.exp(x.astype(np.float64) - x.max())
    np.testing.assert_allclose(run(graphs, soft.model)["softmax"], powers / powers.sum(), atol=1e-6)


@pytest.mark.parametrize(
    ("at", "tail", "reason"),
    [
        ("featur", [], "no layer or value 'featur'"),
        ("aux_pool", [{"kind": "norm"}], "no output of the network depends on 'aux_pool'"),
        ("relu2", [{"kind": "norm"}], "shape [1, 6, 8, 8]; a projection takes a feature"),
    ],
)
def test_replace_tail_refusals(graphs, at, tail, reason):
    net, out, _, _ = trained(graphs)
    with pytest.raises(RecipeError) as caught:
        apply(net.model(out), {"replace_tail": {"at": at, "tail": tail}})
    assert reason in caught.value.reason
    assert caught.value.remedy


def test_keep_and_drop(graphs):
    net, out, aux, feature = trained(graphs)
    model = net.model(out, aux, feature)
    before = run(graphs, model)
    kept = apply(model, {"keep_output": {"outputs": [feature, aux]}})
    assert list(run(graphs, kept.model)) == [feature, aux]
    dropped = apply(model, {"drop_output": {"outputs": [out, aux]}})
    after = run(graphs, dropped.model)
    assert list(after) == [feature]
    np.testing.assert_array_equal(after[feature], before[feature])
    names = [node.name for node in dropped.model.proto().graph.node]
    assert "aux_conv" not in names
    assert "classifier" not in names
    with pytest.raises(RecipeError, match="no output of the network would be left"):
        apply(model, {"drop_output": {"outputs": [out, aux, feature]}})
    with pytest.raises(RecipeError, match="no output 'featur_v'"):
        apply(model, {"keep_output": {"outputs": ["featur_v"]}})


def test_a_tagged_layer_does_not_go_silently(graphs):
    net, out, aux, _ = trained(graphs)
    model = net.model(out, aux, hp=["aux_conv"])
    with pytest.raises(RecipeError, match="'aux_conv', which is tagged `_hp`, would be removed"):
        apply(model, {"drop_output": {"outputs": [aux]}})


def test_strip_rewires_layers_of_one_shape(graphs):
    net, out, aux, _ = trained(graphs)
    model = net.model(out, aux)
    done = apply(model, {"strip_var": {"layers": ["conv2", "relu2"]}})
    # truth: the same network written without the two layers
    other = graphs.Net(image=(1, 3, 8, 8))
    other.constants, other.nodes = net.constants, [n for n in net.nodes if n.name not in ("conv2", "relu2")]
    for node in other.nodes:
        for index, name in enumerate(node.input):
            if name == "relu2_v":
                node.input[index] = "relu1_v"
    truth = run(graphs, other.model(out, aux))
    for name, value in run(graphs, done.model).items():
        np.testing.assert_array_equal(value, truth[name])
    entry = done.log.of("strip_var")
    assert entry.fired == ("conv2", "relu2")
    assert "is not compared" in entry.effect


def test_strip_of_the_last_layers_makes_their_input_the_output(graphs):
    net, out, _, feature = trained(graphs)
    done = apply(net.model(out), {"strip_var": {"layers": ["classifier", "probability"]}})
    after = run(graphs, done.model)
    np.testing.assert_array_equal(after["feature_v"], run(graphs, net.model(feature))["feature_v"])
    assert list(after) == ["feature_v"]


def test_strip_cuts(graphs):
    net, out, aux, _ = trained(graphs)
    done = apply(net.model(out, aux), {"strip_var": {"layers": "aux_*", "then": "cut"}})
    assert list(run(graphs, done.model)) == ["probability_v", "relu1_v"]
    done = apply(net.model(out), {"strip_var": {"layers": ["feature"], "then": "cut"}})
    np.testing.assert_array_equal(
        run(graphs, done.model)["feature_conv_v"].ravel(), run(graphs, net.model("feature_v"))["feature_v"].ravel()
    )


@pytest.mark.parametrize(
    ("layers", "reason"),
    [
        (["conv3"], "no layer that matches 'conv3'"),
        (["feature_conv"], "'feature' reads 'feature_conv_v' of shape [1, 10, 1, 1], and would read 'relu2_v'"),
        (["sum"], "layer 'sum' reads 2 computed values"),
    ],
)
def test_strip_refusals(graphs, layers, reason):
    net, out, _, _ = trained(graphs)
    doubled = net.op("Relu", net.op("Add", out, "classifier_v", name="sum"))
    with pytest.raises(RecipeError) as caught:
        apply(net.model(doubled), {"strip_var": {"layers": layers}})
    assert reason in caught.value.reason
    assert caught.value.remedy


@pytest.mark.parametrize("reshaped", [False, True])
@pytest.mark.parametrize("a", [None, 0.5])
def test_mean_normalize(graphs, reshaped, a):
    net, feature, _, _ = trained(graphs, tail=False)
    total = net.op("ReduceSum", net.op("Mul", feature, feature), net.ints(1), keepdims=1)
    y = net.op("Div", feature, net.op("Sqrt", net.op("Add", total, net.const(1.0))), name="norm")
    if reshaped:
        y = net.op("Reshape", y, net.ints(1, 10, 1, 1), name="last")
    model = net.model(y)
    done = apply(model, {"mean_normalize": {"a": a}})
    x = run(graphs, net.model(feature))["feature_v"].astype(np.float64)
    wanted = x / np.sqrt(np.mean(x**2) + (0.1 if a is None else a))
    after = run(graphs, done.model)[y]
    np.testing.assert_allclose(after.reshape(-1), wanted.reshape(-1), rtol=0, atol=3e-6)
    if a is None:
        np.testing.assert_allclose(after, np.sqrt(10.0) * run(graphs, model)[y], rtol=0, atol=3e-6)
    assert "Div" not in graphs.ops(done.model)
    assert done.reference.digest == done.model.digest


def test_mean_normalize_refusals(graphs):
    net, feature, _, _ = trained(graphs, tail=False)
    with pytest.raises(RecipeError, match="is no normalisation"):
        apply(net.model(feature), {"mean_normalize": {}})
    y = net.op("LpNormalization", feature, axis=1, p=2, name="norm")
    pca = net.op("Gemm", y, net.normal(10, 3), name="pca")
    with pytest.raises(RecipeError, match="is also read by 'pca'"):
        apply(net.model(y, pca), {"mean_normalize": {"output": y}})


def test_vectors_are_given_out_as_pixels(graphs):
    net, feature, aux, _ = trained(graphs, tail=False)
    y = net.op("Gemm", net.op("Relu", feature), net.normal(10, 4), name="pca")
    model = net.model(y, aux, hp=["pca"])
    done = apply(model, "fc_to_conv", "four_dimensional_outputs")
    before, after = run(graphs, model), run(graphs, done.model)
    assert [(o.name, o.shape) for o in done.model.outputs] == [(y, (1, 4, 1, 1)), (aux, (1, 2, 1, 1))]
    np.testing.assert_allclose(after[y].ravel(), before[y].ravel(), rtol=0, atol=1e-5)
    assert graphs.node(done.model, "Conv", -1).name == "pca"
    assert done.model.tags.of(y).hp
    assert done.log.of("four_dimensional_outputs").max_error == 0.0


def test_outputs_that_are_no_reshaped_pixels_are_refused(graphs):
    net, feature, aux, _ = trained(graphs, tail=False)
    y = net.op("Gemm", feature, net.normal(10, 4), name="pca")
    with pytest.raises(RecipeError, match="no output is reshaped"):
        apply(net.model(y, aux), "four_dimensional_outputs")
    with pytest.raises(RecipeError, match="'aux_pool_v' is not reshaped"):
        apply(net.model(feature, aux), {"four_dimensional_outputs": {"outputs": [aux]}})

"""add_pca, half_face_pca, split_full_face_pca: against the formula in numpy on the original's ONNX Runtime output."""

from __future__ import annotations

import numpy as np
import pytest

from nnkit.errors import RecipeError
from nnkit.recipe.restructure import AddPca, HalfFacePca, SplitFullFacePca
from nnkit.recipe.types import RecipePath
from nnkit.rewrite import resolve_steps, restructure_steps
from nnkit.rewrite.edits import add_pca, half_face_pca, split_full_face_pca
from nnkit.rewrite.edits.split_full_face_pca import output_sizes
from nnkit.rewrite.pca import Pca, fit_pca, read_pca, write_pca


@pytest.fixture
def pca_file(tmp_path):
    def write(features, components, seed=0):
        rng = np.random.default_rng(seed)
        path = tmp_path / f"pca{features}_{components}.npz"
        write_pca(path, Pca(rng.normal(1, 1, features), rng.normal(0, 1, (features, components))))
        return RecipePath.of(path), read_pca(path)

    return write


def descriptor(graphs, length=12, axes=2, extra=False):
    net = graphs.Net(image=(1, 3, 6, 6))
    x = net.op("Relu", net.conv("image", (length, 3, 6, 6), name="conv"), name="relu")
    if axes == 2:
        x = net.op("Flatten", x, name="feature")
    return net.model(x, *([net.op("GlobalAveragePool", "image", name="mean")] if extra else []))


def run(graphs, model, seed=3):
    rng = np.random.default_rng(seed)
    feeds = {spec.name: rng.normal(0, 2, spec.shape).astype(np.float32) for spec in model.inputs}
    return dict(zip((spec.name for spec in model.outputs), graphs.run(model, feeds), strict=True))


@pytest.mark.parametrize("axes", [2, 4])
@pytest.mark.parametrize("edit", [(add_pca, AddPca), (half_face_pca, HalfFacePca)])
@pytest.mark.parametrize("hp", [False, True])
def test_projection(graphs, pca_file, axes, edit, hp):
    module, options = edit
    file, pca = pca_file(12, 5)
    model = descriptor(graphs, axes=axes, extra=True)
    feature = model.outputs[0].name
    step = module.make(options(file=file, output=feature, name="proj", hp=hp))
    done = restructure_steps(model, [step])
    before, after = run(graphs, model), run(graphs, done.model)
    wanted = (before[feature].reshape(-1).astype(np.float64) - pca.mean) @ pca.matrix
    np.testing.assert_allclose(after["proj"].reshape(-1), wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
    np.testing.assert_array_equal(after["mean_v"], before["mean_v"])
    assert done.model.outputs[0].shape == ((1, 5) if axes == 2 else (1, 5, 1, 1))
    assert graphs.node(done.model, "Gemm" if axes == 2 else "Conv", -1).name == "proj"
    assert done.model.tags.of("proj").hp == hp
    entry = done.log.of(step.name)
    assert entry.max_error < 1e-4 * np.abs(wanted).max()
    assert entry.max_error / 1e4 < entry.relative_error < entry.max_error  # of sums of between 1 and 10,000
    assert "12 values became 'proj' of 5" in entry.effect
    assert done.reference.digest == done.model.digest


def test_the_projection_is_the_original_pca(graphs, tmp_path):
    # sklearn-free truth: the projection of centred data onto the eigenvectors of its covariance
    rng = np.random.default_rng(0)
    features = rng.normal(0, 1, (200, 6)) @ rng.normal(0, 1, (6, 6)) + 3
    pca = fit_pca(features, 2)
    centred = features - features.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(features.T))
    top = vectors[:, np.argsort(values)[::-1][:2]]
    np.testing.assert_allclose(np.abs((features - pca.mean) @ pca.matrix), np.abs(centred @ top), atol=1e-9)


@pytest.mark.parametrize("axes", [2, 4])
@pytest.mark.parametrize(("length", "components", "channels"), [(12, 5, 4096), (12, 5, 20), (12, 5, 7), (8, 8, 8)])
def test_split_full_face(graphs, pca_file, axes, length, components, channels):
    file, pca = pca_file(2 * length, components)
    model = descriptor(graphs, length, axes)
    step = split_full_face_pca.make(SplitFullFacePca(file=file, name="pca", channels=channels))
    done = restructure_steps(model, [step])
    x = next(iter(run(graphs, model).values())).reshape(-1).astype(np.float64)
    outputs = [value.reshape(-1) for value in run(graphs, done.model).values()]
    assert max(value.size for value in outputs) <= channels
    first, second = pca.matrix[:length], pca.matrix[length:]
    left, right = pca.mean[:length], pca.mean[length:]
    m = -left @ first - right @ second
    wanted = np.concatenate([x @ first + m / 2, x @ second + m / 2, x - left, x - right])
    np.testing.assert_allclose(np.concatenate(outputs), wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())
    assert set(graphs.ops(done.model)) <= {"Conv", "Relu", "Flatten", "Reshape"}


@pytest.mark.parametrize(
    ("blocks", "limit", "sizes"),
    [
        ([512, 512, 1024, 1024], 4096, [3072]),
        ([512, 512, 2048, 2048], 4096, [3072, 2048]),
        ([512, 512, 5000, 5000], 4096, [1024, 4096, 904, 4096, 904]),
        ([3, 3, 4, 4], 4, [3, 3, 4, 4]),
    ],
)
def test_blocks_are_kept_whole_where_they_fit(blocks, limit, sizes):
    assert output_sizes(blocks, limit) == sizes


@pytest.mark.parametrize(
    ("entry", "features", "reason"),
    [
        ("add_pca", 13, "projects features of 13 values, 'feature_v' has 12"),
        ("half_face_pca", 24, "is a PCA of the full face (24 values), 'feature_v' is one half (12)"),
        ("half_face_pca", 11, "projects features of 11 values"),
        ("split_full_face_pca", 12, "the two halves of 'feature_v' have 24"),
    ],
)
def test_another_length_is_refused(graphs, pca_file, entry, features, reason):
    from nnkit.recipe.restructure import RuleEntry

    file, _ = pca_file(features, 2)
    steps = resolve_steps([RuleEntry(**{entry: {"file": file}})], where=lambda index: f"r.yaml:{index + 3}:5")
    with pytest.raises(RecipeError) as caught:
        restructure_steps(descriptor(graphs), steps)
    assert reason in str(caught.value)
    assert str(caught.value).startswith("r.yaml:3:5: ")
    assert caught.value.remedy


def test_feature_maps_and_unknown_outputs_are_refused(graphs, pca_file):
    file, _ = pca_file(12, 2)
    net = graphs.Net(image=(1, 3, 6, 6))
    model = net.model(net.conv("image", (12, 3, 3, 3), name="conv"))
    with pytest.raises(RecipeError, match="takes a feature"):
        restructure_steps(model, [add_pca.make(AddPca(file=file))])
    with pytest.raises(RecipeError, match="no output 'convv'") as caught:
        restructure_steps(model, [add_pca.make(AddPca(file=file, output="convv"))])
    assert "did you mean 'conv_v'" in caught.value.remedy
    two = descriptor(graphs, extra=True)
    with pytest.raises(RecipeError, match="2 outputs") as caught:
        restructure_steps(two, [add_pca.make(AddPca(file=file))])
    assert "feature_v, mean_v" in caught.value.remedy


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"mean": np.zeros(3)}, "no array 'matrix'"),
        ({"mean": np.zeros(3), "matrix": np.zeros((4, 2))}, "which is no projection"),
        ({"mean": np.zeros(3), "matrix": np.zeros((3, 0))}, "'matrix': it holds no values: its shape is [3, 0]"),
        ({"mean": np.zeros(3), "matrix": np.full((3, 2), np.nan)}, "NaN"),
        ({"mean": np.zeros(3), "matrix": np.zeros((3, 2), "U4")}, "of type"),
        (None, "cannot be read"),
    ],
)
def test_broken_files_are_the_recipes_error(graphs, tmp_path, arrays, reason):
    path = tmp_path / "pca.npz"
    if arrays is None:
        path.write_bytes(b"PK\x03\x04 not really")
    else:
        np.savez(path, **arrays)
    with pytest.raises(RecipeError) as caught:
        restructure_steps(descriptor(graphs), [add_pca.make(AddPca(file=RecipePath.of(path)))])
    assert reason in caught.value.reason
    assert caught.value.remedy


def test_objects_are_not_unpickled(graphs, tmp_path):
    path = tmp_path / "pca.npz"
    np.savez(path, mean=np.array([object()]), matrix=np.zeros((1, 1)))
    with pytest.raises(RecipeError, match="cannot be read"):
        restructure_steps(descriptor(graphs), [add_pca.make(AddPca(file=RecipePath.of(path)))])

"""A full-face network cut to one half: two runs and the CPU's merge are the original projection and renorm."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from nnkit.graph.onnx_runtime import FloatSession
from nnkit.postprocess import combine_halves
from nnkit.recipe.restructure import RuleEntry
from nnkit.recipe.types import RecipePath
from nnkit.rewrite import resolve_steps, restructure_steps
from nnkit.rewrite.pca import Pca, fit_pca, write_pca

HALF = (1, 1, 32, 16)
FEATURES, COMPONENTS = 24, 10


def full_face(graphs, pca):
    """Both halves through one trunk, joined, projected, and scaled to the length before the projection."""
    net = graphs.Net(left=HALF, right=HALF, seed=5)
    both = net.op("Concat", "left", "right", axis=0, name="halves")
    x = net.op("Mul", net.op("Sub", both, net.const(127.5)), net.const(1 / 128.0))
    x = net.op("Relu", net.batch_norm(net.conv(x, (8, 1, 5, 5), strides=[3, 3]), 8))
    x = net.op("Gemm", net.op("Flatten", x), net.normal(320, FEATURES), net.normal(FEATURES), name="feature")
    total = net.op("Add", net.op("ReduceSumSquare", x, axes=[1], keepdims=1), net.const(1.0))
    half = net.op("Div", x, net.op("Sqrt", total), name="a1norm")
    face = net.op("Reshape", half, net.ints(1, 2 * FEATURES), name="face")
    centred = net.op("Sub", face, net.const(pca.mean.reshape(1, -1)))
    projected = net.op("MatMul", centred, net.const(pca.matrix))
    lengths = [net.op("ReduceL2", value, axes=[1], keepdims=1) for value in (centred, projected)]
    renormed = net.op("Mul", net.op("Div", projected, lengths[1]), lengths[0], name="renorm")
    return net.model(renormed, face)


def faces(shared=None):
    if shared is None:
        rng = np.random.default_rng(7)
        return [rng.uniform(0, 255, (32, 32)).astype(np.float32) for _ in range(40)]
    paths = sorted((shared / "models" / "ulfg" / "images").rglob("*.jpg"))[:40]
    assert len(paths) >= 5
    return [np.asarray(Image.open(path).convert("L").resize((32, 32)), np.float32) for path in paths]


def sample_of(face):
    return {"left": face[None, None, :, :16], "right": face[None, None, :, :15:-1]}  # the right half is mirrored


@pytest.fixture
def pca(graphs):
    """Fitted to the features of random faces."""
    untrained = Pca(np.zeros(2 * FEATURES), np.eye(2 * FEATURES)[:, :COMPONENTS])
    session = FloatSession(full_face(graphs, untrained), ["face_v"])
    return fit_pca(np.concatenate([session.run(sample_of(face))["face_v"] for face in faces()]), COMPONENTS)


def compare(graphs, pca, pictures, folder, channels):
    model = full_face(graphs, pca)
    write_pca(folder / "pca.npz", pca)
    split = {"file": RecipePath.of(folder / "pca.npz"), "channels": channels}
    steps = [
        RuleEntry(replace_input={"input": "left"}),
        "fold_batch_norm",
        "fc_to_conv",
        RuleEntry(norm_from_concat={"reduce": "mean"}),
        RuleEntry(split_full_face_pca=split),
        RuleEntry(keep_output={"outputs": ["pca"] if channels == 4096 else ["pca_0", "pca_1"]}),
    ]
    kept = restructure_steps(model, resolve_steps([RuleEntry(keep_output={"outputs": "renorm_v"})])).model
    done = restructure_steps(kept, resolve_steps(steps))
    assert [spec.name for spec in done.model.inputs] == ["left"]
    assert not {"Div", "ReduceL2", "Gemm", "MatMul"} & {node.op_type for node in done.model.proto().graph.node}
    whole, half = FloatSession(model), FloatSession(done.model)
    worst = 0.0
    for face in pictures:
        sample = sample_of(face)
        wanted = whole.run(sample)["renorm_v"][0]
        halves = [
            np.concatenate([value.reshape(-1) for value in half.run({"left": sample[side]}).values()])
            for side in ("left", "right")
        ]
        found = combine_halves(*halves, COMPONENTS)
        worst = max(worst, float(np.abs(found - wanted).max() / np.abs(wanted).max()))
    assert worst < 1e-5, worst


@pytest.mark.parametrize("channels", [4096, 44])
def test_two_halves_are_the_full_face_on_random_inputs(graphs, pca, tmp_path, channels):
    compare(graphs, pca, faces()[:10], tmp_path, channels)


def test_two_halves_are_the_full_face_on_real_pictures(graphs, pca, tmp_path, shared_dir):
    compare(graphs, pca, faces(shared_dir), tmp_path, 4096)

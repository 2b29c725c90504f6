"""Restructured networks, written for Caffe: one layer where Caffe has one, and the same numbers when read again."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from random_network_inputs import random_inputs

from nnkit.caffe.export import export_caffe
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.importers.caffe_importer import caffe_model
from nnkit.recipe.restructure import RuleEntry
from nnkit.recipe.types import RecipePath
from nnkit.rewrite import resolve_steps, restructure_steps
from nnkit.rewrite.pca import Pca, write_pca

RULES = ["fold_batch_norm", "fc_to_conv", "sink_reshape", "collapse_reshape"]


def restructured(graphs, folder, norm, channels=4096):
    net = graphs.Net(image=(1, 3, 8, 8))
    x = net.op("Relu", net.batch_norm(net.conv("image", (20, 3, 4, 4), strides=[4, 4]), 20))
    x = net.op("Gemm", net.op("Flatten", x), net.normal(80, 33), net.normal(33), name="feature")
    if norm:
        total = net.op("Add", net.op("ReduceSumSquare", x, axes=[1]), net.const(1.0))
        x = net.op("Div", x, net.op("Sqrt", total), name="norm")
    rng = np.random.default_rng(0)
    write_pca(folder / "pca.npz", Pca(rng.normal(0, 0.1, 66), rng.normal(0, 1, (66, 8))))
    split = {"file": RecipePath.of(folder / "pca.npz"), "hp": True, "channels": channels}
    rebuilt = [RuleEntry(norm_from_concat={"reduce": norm})] if norm else []
    steps = resolve_steps([*RULES, *rebuilt, RuleEntry(split_full_face_pca=split)])
    return restructure_steps(net.model(x), steps).model


@pytest.mark.parametrize("norm", ["sum", "mean"])
def test_read_again_it_is_the_same_network(graphs, tmp_path, norm):
    model = restructured(graphs, tmp_path, norm)
    files = export_caffe(model)
    again = caffe_model(files.prototxt.encode(), files.caffemodel).model
    sample = random_inputs(model, 1)
    wanted, found = (next(iter(FloatSession(m).run(sample).values())).ravel() for m in (model, again))
    np.testing.assert_array_equal(found, wanted)
    # The root is one layer: square, root, and the scale at the end.
    assert files.prototxt.count('type: "Power"') == 3
    assert files.prototxt.count('type: "Reduction"') == 1
    assert 'name: "pca_hp"' in files.prototxt


@pytest.mark.parametrize("channels", [4096, 50])
def test_opencv_reads_the_projection(graphs, tmp_path, channels):
    model = restructured(graphs, tmp_path, None, channels)
    files = export_caffe(model)
    texts = (np.frombuffer(data, np.uint8) for data in (files.prototxt.encode(), files.caffemodel))
    net = cv2.dnn.readNetFromCaffe(*texts)
    sample = random_inputs(model, 1)
    net.setInput(sample["image"])
    for name, wanted in FloatSession(model).run(sample).items():
        found = net.forward(files.blobs[name])
        np.testing.assert_allclose(found.ravel(), wanted.ravel(), rtol=0, atol=1e-4 * np.abs(wanted).max())

"""Real networks through import and the default set."""

from __future__ import annotations

import pytest

from nnkit.importers.onnx_importer import import_onnx
from nnkit.rewrite import DEFAULT_RULES, resolve_rules, restructure


def _restructured(graphs, path):
    if not path.exists():
        pytest.skip(f"{path.name} is not among the shared data")
    model = import_onnx(path).model
    after, log = restructure(model, resolve_rules(DEFAULT_RULES))
    graphs.assert_equal(model, after)
    return after, log


def test_face_network_pools_the_parts_of_its_fire_modules(graphs, shared_dir):
    after, log = _restructured(graphs, shared_dir / "models" / "gap8_reid" / "reid.onnx")
    assert len(log.of("pool_before_concat").fired) == 2
    assert len(log.of("fuse_activation").fired) == 25
    assert len(log.of("fuse_pool").fired) == 5
    left = {n.op_type for n in after.proto().graph.node if n.name not in graphs.marks(after)}
    assert left == {"Conv", "Concat", "GlobalAveragePool", "Flatten"}


def test_face_detector_loses_all_batch_normalisations(graphs, shared_dir):
    path = shared_dir / "models" / "ulfg" / "version-RFB-320_without_postprocessing.onnx"
    after, log = _restructured(graphs, path)
    assert len(log.of("fold_batch_norm").fired) == 35
    assert "BatchNormalization" not in graphs.ops(after)
    assert log.of("fold_batch_norm").relative_error < 1e-5


def test_cifar_resnet_keeps_no_slice_and_no_channel_pad(graphs, shared_dir):
    after, _ = _restructured(graphs, shared_dir / "quant_bench" / "r20.onnx")
    assert set(graphs.ops(after)) == {"Conv", "Relu", "Add", "GlobalAveragePool", "Reshape"}

"""A recipe with a Caffe network, from the command line to compiled C, and what its mistakes say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from benchmarks.caffe_corpus import caffemodel, layer

from .conftest import Command, report_of

RECIPE = """\
nnkit: 1
name: small
model:
  path: net.prototxt
  weights: net.caffemodel
  inputs:
    data:
      preprocess: {color: gray, mean: 128, scale: 0.0078125}
      calibration: {images: "images/*.png"}
targets:
  gap8: {}
"""
NETWORK = (
    'name: "small"\ninput: "data"\ninput_dim: 1\ninput_dim: 1\ninput_dim: 24\ninput_dim: 20\n'
    + layer("Convolution", "convolution_param { num_output: 4 kernel_size: 3 pad: 1 }", tops="c", name="conv_hp")
    + layer("BatchNorm", bottoms="c", tops="c", name="bn")
    + layer("Scale", "scale_param { bias_term: true }", bottoms="c", tops="c", name="scale")
    + layer("ReLU", bottoms="c", tops="c", name="relu")
    + layer("Pooling", "pooling_param { kernel_size: 2 stride: 2 }", bottoms="c", tops="p", name="pool")
    + layer("InnerProduct", "inner_product_param { num_output: 5 }", bottoms="p", tops="y", name="fc")
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    random = np.random.default_rng(1)

    def weights(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return random.normal(0, 0.3, shape).astype(np.float32)

    arrays = {
        "conv_hp": [weights(4, 1, 3, 3), weights(4)],
        "bn": [weights(4), np.abs(weights(4)) + np.float32(0.5), np.float32([1.0])],
        "scale": [weights(4), weights(4)],
        "fc": [weights(5, 480), weights(5)],
    }
    (tmp_path / "net.prototxt").write_text(NETWORK)
    (tmp_path / "net.caffemodel").write_bytes(caffemodel(arrays))
    (tmp_path / "images").mkdir()
    for index in range(4):
        pixels = random.integers(0, 256, (24, 20)).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"images/{index}.png")
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    return tmp_path


def test_a_caffe_network_becomes_c_that_computes_it(nnkit: Command, project: Path) -> None:
    done = nnkit("run", "recipe.yaml", "--no-qemu")
    assert done.code == 0, done.err
    report = report_of(project / "out/small/gap8")
    assert report["status"] == "ok"
    assert report["verify"]["float_vs_program"]["cosine"] > 0.999
    assert report["verify"]["program_vs_artifact"][0]["mismatches"] == 0


def test_what_is_wrong_with_the_files_is_said_with_its_place(nnkit: Command, project: Path) -> None:
    (project / "net.prototxt").write_text(NETWORK.replace('"ReLU"', '"Relu6"'))
    done = nnkit("plan", "recipe.yaml")
    assert done.code == 3
    assert "line 10: relu (Relu6): the layer type is not known" in done.err
    assert "did you mean 'ReLU6'?" in done.err
    (project / "net.prototxt").write_text(NETWORK.replace("kernel_size: 2", "kernel_size: two"))
    done = nnkit("plan", "recipe.yaml")
    assert done.code == 3
    assert "net.prototxt:11:" in done.err
    (project / "net.prototxt").write_text(NETWORK)
    (project / "net.caffemodel").unlink()
    done = nnkit("plan", "recipe.yaml")
    assert done.code == 2
    assert "net.caffemodel" in done.err

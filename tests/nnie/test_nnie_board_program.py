"""The board's program: features of a list, timing, memory, against stand-ins for the SDK, under sanitizers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from nnie_board_sdk import BoardSdk, program_of
from nnie_networks import Net
from nnie_stn_project import build_of, project
from PIL import Image
from small_project import make_build

from benchmarks.caffe_corpus import caffemodel
from nnkit import pipeline
from nnkit.preprocess import Preprocess, Resize, load_input
from nnkit.program.inputs import quantized_inputs
from nnkit.samples import Sample
from nnkit.simulate import simulate
from nnkit.verify.features import read_features

RECIPE = """\
nnkit: 1
name: three-segments
model:
  path: net.onnx
  inputs:
    image:
      preprocess: {color: bgr, resize: {size: [20, 36], letterbox: true, fill: 114}%s}
      calibration: {images: images/*.ppm}
tags: {cpu: [turned]}
targets: {nnie: {chip: hi3516dv300, compile_mode: 1%s}}
"""
SIZE = Resize(20, 36, "bilinear", letterbox=True, fill=114)


def pictures(folder: Path) -> list[str]:
    """PPM and PGM of sizes that are wider, higher and smaller than the network's input."""
    (folder / "images").mkdir()
    names = []
    for index, shape in enumerate([(61, 47, 3), (15, 80, 3), (20, 36, 3), (33, 21)]):
        pixels = np.random.default_rng(index).integers(0, 256, shape).astype(np.uint8)
        names.append(f"images/{index}.{'ppm' if len(shape) == 3 else 'pgm'}")
        Image.fromarray(pixels).save(folder / names[-1])
    return names


def three_segments(folder: Path, preprocess: str = "", options: str = "") -> Path:
    """NNIE, CPU, NNIE; two outputs, of a width that is no multiple of 16 bytes."""
    net = Net(3)
    x = net.conv(net.input("image", 3, 20, 36), (3, 5), "first", strides=[2, 2])
    turned = net.node("Abs", [net.node("Neg", [x], "negative")], "turned")
    last = net.conv(turned, (5, 6), "second", strides=[2, 2])
    flat = net.node("Flatten", [net.node("GlobalAveragePool", [last], "pooled")], "flat")
    model = net.model(net.fc(flat, (6, 7), "feature"), net.node("Sigmoid", [last], "map"))
    (folder / "net.onnx").write_bytes(model.onnx_bytes)
    (folder / "recipe.yaml").write_text(RECIPE % (preprocess, options))
    return pipeline.run(make_build(folder / "recipe.yaml", target="nnie"), folder / "out").folder


@pytest.mark.parametrize(
    ("compiler", "preprocess", "options"),
    [
        ("clang", ", mean: [104, 117, 123], scale: 0.0078125", ""),
        ("gcc", ", mean: [104, 117, 123], scale: 0.0078125", ", inputs: {image: {image_type: vector}}"),
    ],
)
def test_normalised_pixels_and_numbers_made_of_them(compiler: str, preprocess: str, options: str, tmp_path: Path):
    """The chip normalises pixels; of a vector that comes from pictures the board does."""
    names = pictures(tmp_path)
    board = BoardSdk(three_segments(tmp_path, preprocess, options), tmp_path, compiler)
    assert_simulated(board, names, Preprocess("bgr", None, False, SIZE, (104.0, 117.0, 123.0), (0.0078125,)))


def assert_simulated(board: BoardSdk, names: list[str], settings: Preprocess) -> None:
    rows = board.features([*names, "", names[0]])
    assert [row[0] for row in rows] == [*names, names[0]]
    program = board.program
    for name, row in zip(names, rows, strict=False):
        image = load_input(board.folder / name, settings, (1, 3, 20, 36))
        stored = simulate(program, quantized_inputs(program, Sample(name, {"image": image})))
        real = [program.tensors[n].format.dequantize(stored[n]).ravel() for n in program.outputs]
        assert np.array_equal(np.float32(row[1:]), np.float32(np.concatenate(real)))


def test_features_of_a_list_are_the_simulations(board: BoardSdk):
    names = [f"images/{path.name}" for path in sorted((board.folder / "images").iterdir())]
    assert_simulated(board, names, Preprocess("bgr", resize=SIZE))
    assert read_features(board.folder / "features.csv").values.shape == (5, 7 + 6 * 5 * 9)


def test_timing_and_memory_are_told(board: BoardSdk):
    tmp_path = board.folder
    done = board.run("time", "3")
    assert (done.returncode, done.stderr) == (0, "")
    assert board.calls == 8  # two segments; one run before those that count
    line = r"^time +[\d.]+ ms a run on average, [\d.]+ to [\d.]+, of 3 runs on random inputs$"
    assert re.search(line, done.stdout, re.M)
    assert re.search(r"^  NNIE +[\d.]+ ms, in 2 calls a run$", done.stdout, re.M)
    told = board.run("memory")
    assert (told.returncode, told.stderr) == (0, "")
    sizes = {name: int(size) for name, size in re.findall(r"^(\w+) +(\d+) bytes", told.stdout, re.M)}
    assert sizes["networks"] == len((tmp_path / "inst.wk").read_bytes())
    assert (sizes["tasks"], sizes["temporary"]) == (2 * 4096 + 256, 5120)
    rows = {"image": 3 * 20 * 48, "negative": 5 * 10 * 80, "turned": 5 * 10 * 80, "feature": 32, "map": 6 * 5 * 48}
    assert sizes["blobs"] == sum(-(-size // 256) * 256 for size in rows.values())
    assert told.stdout.splitlines()[-1].startswith("CPU")


def test_two_networks_and_the_warp_between_them(tmp_path: Path):
    build = pipeline.run(build_of(project(tmp_path)), tmp_path / "out").folder
    board = BoardSdk(build, tmp_path)
    images = [f"images/{index}.png" for index in range(2)]
    lines = []
    for name in images:
        Image.open(tmp_path / name).save(tmp_path / (name + ".pgm"))
        lines.append(name + ".pgm")
    rows = board.features(lines)
    program = program_of(build)
    for name, row in zip(images, rows, strict=True):
        pixels = np.asarray(Image.open(tmp_path / name))[None]
        expected = simulate(program, {program.inputs[0]: pixels})[program.outputs[0]].ravel() / 4096
        np.testing.assert_allclose(np.float64(row[1:]), expected, atol=0.02 * np.abs(expected).max())
    assert [path.name for path in sorted(tmp_path.glob("*/*.wk"))] == ["inst_net.wk", "inst_stn.wk"]


def other_network(folder: Path) -> str:
    return re.sub(r"\bnegative\b", "positive", (folder / "inst.wk").read_text())


def other_shape(folder: Path) -> str:
    return re.sub(r"(\d+ 10) 18 (5 negative)", r"\1 19 \2", (folder / "inst.wk").read_text())


def another_input(folder: Path) -> str:
    return (folder / "inst.wk").read_text().replace(" image\n", " image2\n")


@pytest.mark.parametrize(
    ("wk", "message"),
    [
        (lambda folder: "no wk", "HI_MPI_SVP_NNIE_LoadModel (is the .wk for this chip's NNIE?): refused by the SDK"),
        (other_network, "negative: the .wk is another network's"),
        (other_shape, "negative: the .wk has another shape or type there"),
        (another_input, "image: the .wk is another network's"),
        (lambda folder: "temporary 16\nsegment 2 0 0\n", "inst.wk: the .wk has a recurrent segment"),
        (lambda folder: "temporary 16\n", "inst.wk: the .wk is another network's"),
    ],
)
def test_what_is_wrong_with_the_compiled_network_is_told(wk, message: str, board: BoardSdk):
    kept = (board.folder / "inst.wk").read_text()
    try:
        (board.folder / "inst.wk").write_text(wk(board.folder))
        done = board.run("time", "1")
    finally:
        (board.folder / "inst.wk").write_text(kept)
    assert done.returncode == 1
    assert message in done.stderr


@pytest.mark.parametrize(
    "function",
    [
        "HI_MPI_SYS_Init",
        "HI_MPI_SYS_MmzAlloc",
        "HI_MPI_SYS_MmzAlloc,2",
        "HI_MPI_SVP_NNIE_LoadModel",
        "HI_MPI_SVP_NNIE_GetTskBufSize",
        "HI_MPI_SVP_NNIE_AddTskBuf",
        "HI_MPI_SVP_NNIE_AddTskBuf,2",
        "HI_MPI_SVP_NNIE_Forward,2",
        "HI_MPI_SVP_NNIE_Query",
    ],
)
def test_an_error_of_the_sdk_ends_the_program_with_everything_given_back(function: str, board: BoardSdk):
    """The stand-in ends with 70, and ASan with a code of its own, where memory or tasks are left."""
    done = board.run("time", "1", NNIE_FAILS=function)
    assert done.returncode == 1, done.stderr
    assert "refused by the SDK (0x" in done.stderr


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("missing.ppm", "missing.ppm: cannot be read"),
        ("a.ppm\tb.ppm", "line 1 of the list has not one file for each of the 1 inputs"),
        ("broken.ppm", "broken.ppm: the picture is cut off"),
        ("deep.ppm", "deep.ppm: no binary PGM or PPM of 8 bits"),
        ("raw.bin", "raw.bin: 5 bytes; input image has 2160, or is a binary PGM or PPM"),
    ],
)
def test_what_is_wrong_with_the_list_is_told(line: str, message: str, board: BoardSdk):
    (board.folder / "broken.ppm").write_bytes(b"P6 # a comment\n 4 4\n255\n" + bytes(47))
    (board.folder / "deep.ppm").write_bytes(b"P6\n4 4\n65535\n" + bytes(96))
    (board.folder / "raw.bin").write_bytes(bytes(5))
    (board.folder / "list.txt").write_text(f"{line}\n")
    done = board.run("features", "list.txt", "features.csv")
    assert done.returncode == 1
    assert message in done.stderr


def test_raw_bytes_and_the_usage(board: BoardSdk):
    raw = np.random.default_rng(0).integers(0, 256, 3 * 20 * 36).astype(np.uint8)
    raw.tofile(board.folder / "in image.bin")
    (row,) = board.features(["in image.bin"])
    assert row[0] == '"in image.bin"'
    stored = simulate(board.program, {"image": raw.reshape(3, 20, 36)})["feature"].ravel()
    assert np.array_equal(np.float32(row[1:8]), np.float32(stored / 4096))
    for arguments in ([], ["time", "0"], ["-w", "a", "-w", "b", "memory"], ["features", "list.txt"]):
        done = board.run(*arguments)
        assert done.returncode == 2
        assert done.stderr.startswith("usage: ")
    assert board.run("-w", "other.wk", "memory").stderr.startswith("other.wk: the file cannot be read")


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> BoardSdk:
    folder = tmp_path_factory.mktemp("board")
    pictures(folder)
    return BoardSdk(three_segments(folder), folder)


REGIONS = """\
name: "regions"
input: "data"
input_shape { dim: 1 dim: 3 dim: 32 dim: 48 }
input: "rois"
input_shape { dim: 4 dim: 5 }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 5 kernel_size: 3 pad: 1 stride: 2 } }
layer { name: "pool" type: "ROIPooling" bottom: "conv" bottom: "rois" top: "pool"
  roi_pooling_param { pooled_h: 3 pooled_w: 2 spatial_scale: 0.5 } }
layer { name: "fc" type: "InnerProduct" bottom: "pool" top: "fc" inner_product_param { num_output: 6 } }
"""


def test_regions_go_beside_the_inputs_of_their_segment(tmp_path: Path):
    """The list names the image and four regions, of which the last is not used; its features are 0."""
    random = np.random.default_rng(0)
    weights = {
        "conv": [random.normal(0, 0.02, (5, 3, 3, 3)).astype(np.float32), np.zeros(5, np.float32)],
        "fc": [random.normal(0, 0.1, (6, 30)).astype(np.float32), np.ones(6, np.float32)],
    }
    (tmp_path / "net.prototxt").write_text(REGIONS)
    (tmp_path / "net.caffemodel").write_bytes(caffemodel(weights))
    boxes = np.float32([[0, 0, 0, 30, 20], [0, 10, 5, 47, 31], [0, 4, 4, 9, 9], [-1, 0, 0, 0, 0]])
    np.save(tmp_path / "rois.npy", boxes)
    image = Image.fromarray(random.integers(0, 256, (32, 48, 3)).astype(np.uint8))
    image.save(tmp_path / "a.ppm")
    (tmp_path / "recipe.yaml").write_text(
        "nnkit: 1\nname: regions\nmodel:\n  path: net.prototxt\n  weights: net.caffemodel\n  inputs:\n"
        "    data: {preprocess: {color: bgr}, calibration: {images: a.ppm}}\n"
        "    rois: {calibration: {images: rois.npy}}\n"
        "targets: {nnie: {chip: hi3516dv300, compile_mode: 1}}\n"
    )
    build = pipeline.run(make_build(tmp_path / "recipe.yaml", target="nnie"), tmp_path / "out").folder
    board = BoardSdk(build, tmp_path)
    assert "segment 1 1 1" in (tmp_path / "inst.wk").read_text()
    (boxes * 4096).astype("<i4").tofile(tmp_path / "rois.bin")
    (row,) = board.features(["a.ppm\trois.bin"])
    pixels = np.asarray(image).transpose(2, 0, 1)[::-1]
    stored = simulate(board.program, {"data": pixels, "rois": (boxes * 4096).astype(np.int32)})["fc"].reshape(4, 6)
    found = np.float32(row[1:]).reshape(4, 6)
    assert np.array_equal(found[:3], np.float32(stored[:3] / 4096))
    assert not found[3].any()

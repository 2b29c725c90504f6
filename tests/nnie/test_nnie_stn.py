"""A spatial transformer on the NNIE: two networks and a warp from one recipe, one program for all three."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from nnie_networks import Net
from nnie_stn_project import OUT, SIDE, build_of, face, project, stn_model
from nnie_wk_files import made
from PIL import Image

from nnkit import pipeline
from nnkit.builds import BuiltFolder, open_build
from nnkit.calibrate import calibrate
from nnkit.cpu_segments import run_segment
from nnkit.custom_ops import WarpPerspective
from nnkit.errors import ModelError
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.program import Float
from nnkit.simulate import simulate
from nnkit_nnie.gfpq.quantize import PIXELS, Precision, to_program
from nnkit_nnie.limits.context import Division
from nnkit_nnie.mapper.caffe_pair import caffe_pair
from nnkit_nnie.mapper.input_settings import InputSettings
from nnkit_nnie.parts import parts_of, settings_of_part
from nnkit_nnie.segments import divide


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> BuiltFolder:
    folder = tmp_path_factory.mktemp("stn")
    done = pipeline.run(build_of(project(folder)), folder / "out")
    assert done.status == "ok"
    return open_build(done.folder)


def caffe(built: BuiltFolder, part: str) -> cv2.dnn.Net:
    folder = built.folder / "artifact" / part
    return cv2.dnn.readNetFromCaffe(str(folder / f"stn_{part}.prototxt"), str(folder / f"stn_{part}.caffemodel"))


def test_opencv_runs_both_pairs_and_warps_between_them_as_the_unsplit_network(built: BuiltFolder):
    stn, net = caffe(built, "stn"), caffe(built, "net")
    whole = FloatSession(stn_model(), fetch=["matrix", "warped", "feature"])
    for index in range(3):
        image = face(index).astype(np.float32)
        wanted = whole.run({"face": image[None]})
        stn.setInput(image[None])
        matrix = stn.forward().reshape(3, 3)
        np.testing.assert_allclose(matrix.ravel(), wanted["matrix"].ravel(), rtol=1e-4, atol=1e-6)
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        warped = cv2.warpPerspective(image[0], matrix.astype(np.float64), OUT[::-1], flags=flags)
        # OpenCV rounds coordinates to 1/32 pixel: 1/64 off either way, of a step between pixels or to the border
        padded = np.pad(image[0], 1)
        step = max(np.abs(np.diff(padded, axis=axis)).max() for axis in (0, 1))
        difference = np.abs(warped - wanted["warped"][0, 0])
        assert difference.max() <= step * 2 / 64
        assert difference.mean() < 0.3
        net.setInput(wanted["warped"])
        scale = np.abs(wanted["feature"]).max()
        np.testing.assert_allclose(net.forward().ravel(), wanted["feature"].ravel(), rtol=0, atol=1e-4 * scale)


def test_the_program_is_stn_then_pixels_then_net(built: BuiltFolder):
    program = built.program
    assert [segment["runs_on"] for segment in built.report["details"]["segments"]] == ["nnie", "cpu", "nnie"]
    assert [segment["what"] for segment in built.report["details"]["segments"]] == ["stn", "warp", "net"]
    assert [entry["name"] for entry in built.report["details"]["networks"]] == ["stn", "net"]
    assert program.tensors["warped"].format == PIXELS
    tensors = simulate(program, {"face": face()})
    matrix = program.tensors["matrix"].format.dequantize(tensors["matrix"]).astype(np.float32)
    exact = WarpPerspective(out_h=OUT[0], out_w=OUT[1]).run(face()[None].astype(np.float32), matrix.ravel())[0]
    assert np.array_equal(tensors["warped"], np.floor(exact[0] + 0.5).astype(np.uint8))
    in_c = run_segment(
        built.folder / "artifact" / "cpu" / "segment1", "segment1", {"face": face()[None], "matrix": matrix}
    )
    np.testing.assert_allclose(in_c["warped"].ravel(), exact.ravel(), rtol=0, atol=1e-3)
    verdicts = {entry["how"]: entry for entry in built.report["verify"]["program_vs_artifact"]}
    assert verdicts["caffe"]["mismatches"] == verdicts["cpu_c"]["mismatches"] == 0
    assert verdicts["cpu_c"]["values"] >= OUT[0] * OUT[1]


def test_files_of_the_two_networks(built: BuiltFolder):
    artifact = built.folder / "artifact"
    cfgs = {part: (artifact / part / f"stn_{part}.cfg").read_text().splitlines() for part in ("stn", "net")}
    keys = {part: dict(line.strip("[").split("] ") for line in lines) for part, lines in cfgs.items()}
    assert (keys["stn"]["instruction_name"], keys["net"]["instruction_name"]) == ("inst_stn", "inst_net")
    assert (keys["net"]["image_type"], keys["net"]["norm_type"]) == ("1", "0")
    assert 'name: "feature_hp"' in (artifact / "net" / "stn_net.prototxt").read_text()
    data = json.loads((artifact / "segments.json").read_text())
    assert [network["name"] for network in data["networks"]] == ["stn", "net"]
    assert [segment.get("network") for segment in data["segments"]] == ["stn", None, "net"]
    board = (artifact / "board" / "stn_run.h").read_text()
    assert " * 0: stn/inst_stn.wk\n * 1: net/inst_net.wk\n" in board


def test_net_is_given_what_the_float_stn_aligned(built: BuiltFolder):
    folder = built.folder / "artifact" / "net"
    listed = (folder / "images_warped.txt").read_text().split()
    assert len(listed) == 5
    whole = FloatSession(stn_model(), fetch=["warped"])
    images = [np.asarray(Image.open(path)) for path in sorted((built.folder.parents[2] / "images").glob("*.png"))]
    for name, image in zip(listed, images, strict=True):
        warped = whole.run({"face": image[None, None].astype(np.float32)})["warped"][0, 0]
        assert np.array_equal(np.asarray(Image.open(folder / name)), np.floor(warped + 0.5).astype(np.uint8))
    kept = np.load(built.folder / "artifact" / "testcase" / "calibration_last_warped.npy")
    assert np.array_equal(kept[0, 0], np.asarray(Image.open(folder / listed[-1])))


def test_an_image_that_the_chip_normalises_cannot_be_warped_before():
    model = stn_model()
    network = divide(model, Division("hi3516cv500"))
    statistics = calibrate(model, {"face": [face()[None].astype(np.float32)]}, {})
    with pytest.raises(ModelError, match="which the chip normalises"):
        to_program(network, statistics, Precision(0, frozenset()), name="t", inputs={"face": Float(32)})


def test_net_gets_pixels_where_the_stn_gets_camera_frames():
    """The CPU warps between them, and what it makes is no frame."""
    division = Division("hi3516cv500")
    stn, net = parts_of(divide(stn_model(), division), division)
    settings = (InputSettings("face", (1, 1, SIDE, SIDE), "yvu420sp", 0, (), 1.0, "RGB"),)
    assert settings_of_part(stn, settings) == settings
    assert settings_of_part(net, settings) == (InputSettings("warped", (1, 1, *OUT), "u8", 0, (), 1.0, "RGB"),)


def test_one_network_where_the_recipe_says_so(tmp_path: Path):
    recipe = project(tmp_path, "{chip: hi3516cv500, compile_mode: 2, split_at_warp: false}")
    done = pipeline.run(build_of(recipe), tmp_path / "out")
    assert done.status == "ok"
    text = (done.folder / "artifact" / "stn.prototxt").read_text()
    assert 'type: "Custom"' in text
    program = open_build(done.folder).program
    assert program.tensors["warped"].format == Float(32)


def test_layers_of_net_that_do_not_wait_for_the_warp_run_behind_it():
    network = divide(stn_model(extra=True), Division("hi3516cv500"))
    assert [segment.layers[0].name for segment in network.segments] == ["stn_conv", "warp", "side_conv"]
    one = divide(stn_model(extra=True), replace(Division("hi3516cv500"), split_at_warp=False))
    assert "side_conv" in [layer.name for layer in one.segments[0].layers]


MAPPER = """\
import os, sys
with open(os.environ["CALLS"], "a") as log:
    log.write(sys.argv[1] + "\\n")
cfg = dict(line.strip().strip("[").split("] ") for line in open(sys.argv[1]))
assert os.path.exists(cfg["prototxt_file"]) and os.path.exists(cfg["image_list"])
open(cfg["instruction_name"] + ".wk", "wb").write(open({wk!r}, "rb").read())
"""


def test_the_mapper_compiles_both_in_order(tmp_path: Path):
    wk = tmp_path / "sound.wk"
    wk.write_bytes(made(1))
    program = tmp_path / "nnie_mapper_12"
    program.write_text(f"#!{sys.executable}\n{MAPPER.format(wk=str(wk))}")
    program.chmod(0o755)
    recipe = project(tmp_path)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "CALLS": str(tmp_path / "calls"),
    }
    environment["NNKIT_CACHE"] = str(tmp_path / "cache")
    command = [
        sys.executable,
        "-c",
        "from nnkit.cli import main; main()",
        "run",
        str(recipe),
        "--out",
        str(tmp_path / "o"),
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "calls").read_text().split() == ["stn_stn.cfg", "stn_net.cfg"]
    artifact = tmp_path / "o" / "stn" / "nnie" / "artifact"
    report = json.loads((artifact.parent / "report.json").read_text())
    assert [entry["mapper"]["wk_segments"] for entry in report["details"]["networks"]] == [1, 1]
    for part in ("stn", "net"):
        (artifact / part / f"inst_{part}.wk").unlink()
    by_hand = subprocess.run(
        [artifact / "compile.sh", program], env=environment, capture_output=True, text=True, check=False
    )
    assert by_hand.returncode == 0, by_hand.stderr
    assert (artifact / "net" / "inst_net.wk").exists()


def test_a_reshape_among_cpu_layers_stays_there():
    net = Net(3)
    x = net.node("GlobalAveragePool", [net.conv(net.input("face", 1, 8, 8), (1, 4), "conv")], "pooled")
    scaled = net.tag(net.node("Mul", [x, net.constant("by", np.full((1, 4, 1, 1), 1e-5))], "scaled"), cpu=True)
    model = net.model(net.node("Flatten", [scaled], "flat"))
    network = divide(model, Division("hi3516cv500"))
    assert [segment.placement for segment in network.segments] == ["npu", "cpu"]
    text = caffe_pair(network).caffe.prototxt("t")
    assert 'name: "scaled_cpu"' in text
    assert 'name: "flat_cpu"' in text
    statistics = calibrate(model, {"face": [face()[None, :, :8, :8].astype(np.float32)]}, {})
    program = to_program(network, statistics, Precision(0, frozenset()), name="t", inputs={"face": PIXELS})
    assert program.tensors["flat"].format == Float(32)  # S20.12 would make these numbers 0


BOARD_MAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include "stn_run.h"

static void move(const char *path, const char *mode, void *data, size_t bytes)
{
    FILE *file = fopen(path, mode);
    size_t done = !file ? 0 : mode[0] == 'r' ? fread(data, 1, bytes, file) : fwrite(data, 1, bytes, file);
    if (done != bytes) exit(3);
    fclose(file);
}

/* What each network is given is kept, what it gives is read. */
int nnkit_nnie_forward(void *board, int segment, const nnkit_nnie_blob *in, int ins,
                       const nnkit_nnie_blob *out, int outs)
{
    (void)board;
    if (ins != 1 || outs != 1 || !in->is_pixels) return 9;
    move(segment ? "got1" : "got0", "wb", (void *)in->source, (size_t)in->channels * in->height * in->width);
    move(segment ? "give1" : "give0", "rb", out->result, (size_t)out->channels * out->height * out->width * 4);
    return 0;
}

int main(void)
{
    static unsigned char face[24 * 24];
    static float feature[12];
    const void *inputs[1] = {face};
    float *outputs[1] = {feature};
    move("face", "rb", face, sizeof face);
    if (stn_run(NULL, inputs, outputs)) return 4;
    move("feature", "wb", feature, sizeof feature);
    return 0;
}
"""


def test_the_boards_c_warps_pixels_to_pixels(built: BuiltFolder, tmp_path: Path):
    artifact, image = built.folder / "artifact", face(7)
    tensors = simulate(built.program, {"face": image})
    image.tofile(tmp_path / "face")
    for index, name in enumerate(("matrix", "feature")):
        tensors[name].astype("<i4").tofile(tmp_path / f"give{index}")
    (tmp_path / "main.c").write_text(BOARD_MAIN)
    of_the_sdk = ("main.c", "nnkit_nnie.c")
    board = [path for path in artifact.glob("board/*.c") if path.name not in of_the_sdk]
    sources = [tmp_path / "main.c", *board, *artifact.glob("cpu/*/*.c")]
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined", "-ffp-contract=off"]
    command = ["gcc", *flags, f"-I{artifact / 'board'}", *map(str, sources), "-lm", "-o", str(tmp_path / "run")]
    made_it = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made_it.returncode == 0, made_it.stderr
    done = subprocess.run([tmp_path / "run"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert np.array_equal(np.fromfile(tmp_path / "got0", np.uint8), image.ravel())
    assert np.array_equal(np.fromfile(tmp_path / "got1", np.uint8), tensors["warped"].ravel())
    real = built.program.tensors["feature"].format.dequantize(tensors["feature"]).ravel()
    np.testing.assert_allclose(np.fromfile(tmp_path / "feature", "<f4"), real, rtol=1e-6)

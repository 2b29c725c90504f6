"""The C that runs all segments, compiled on this machine; a stand-in for the NNIE replays the simulation."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Literal

import cv2
import numpy as np
import pytest
from nnie_networks import Net
from numpy.typing import NDArray

from nnkit.calibrate import calibrate
from nnkit.cpu_segments import emit_segment
from nnkit.graph import Model
from nnkit.graph.subgraph import subgraph
from nnkit.preprocess import CropBox, Preprocess, Resize
from nnkit.program import Float, Program
from nnkit.simulate import simulate
from nnkit_nnie.board.run_c import board_sources, frames_as_they_come, frames_on_the_cpu
from nnkit_nnie.gfpq.ops import STORED
from nnkit_nnie.gfpq.quantize import PIXELS, Precision, to_program
from nnkit_nnie.limits.context import Division
from nnkit_nnie.mapper.caffe_pair import caffe_pair
from nnkit_nnie.mapper.input_settings import InputSettings
from nnkit_nnie.network import Network
from nnkit_nnie.segments import divide

FAKE_NNIE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "{function}_run.h"

static void whole(const char *path, void *data, size_t bytes)
{{
    FILE *file = fopen(path, "rb");
    if (!file || fread(data, 1, bytes, file) != bytes) {{ fprintf(stderr, "%s\n", path); exit(3); }}
    fclose(file);
}}

/* What the NNIE gets is kept, what it gives is read: files by blob. */
int nnkit_nnie_forward(void *board, int segment, const nnkit_nnie_blob *in, int ins,
                       const nnkit_nnie_blob *out, int outs)
{{
    char path[512];
    int i;
    if (segment == atoi(getenv("FAILS_AT"))) return 42;
    for (i = 0; i < ins; i++) {{
        size_t bytes = (size_t)in[i].channels * in[i].height * in[i].width * (in[i].is_pixels ? 1 : 4);
        if (in[i].frame) bytes = (size_t)in[i].height * in[i].width * (in[i].frame == 420 ? 3 : 4) / 2;
        FILE *file;
        snprintf(path, sizeof path, "got_%d_%s.bin", segment, in[i].blob);
        file = fopen(path, "wb");
        fwrite(in[i].source, 1, bytes, file);
        fclose(file);
    }}
    for (i = 0; i < outs; i++) {{
        snprintf(path, sizeof path, "%s/%s.bin", (const char *)board, out[i].blob);
        whole(path, out[i].result, (size_t)out[i].channels * out[i].height * out[i].width * 4);
    }}
    return 0;
}}

int main(void)
{{
    static unsigned char image[{pixels}];
    static float result[{values}];
    const void *inputs[1] = {{image}};
    float *outputs[1] = {{result}};
    int status;
    FILE *file;
    whole("image.bin", image, sizeof image);
    status = {function}_run((void *)"given", inputs, outputs);
    if (status != 0) return status;
    file = fopen("result.bin", "wb");
    fwrite(result, sizeof(float), {values}, file);
    fclose(file);
    return 0;
}}
"""


def network(end_on_cpu: bool) -> Model:
    net = Net(7)
    x = net.conv(net.input("image", 3, 16, 16), (3, 4), "first", strides=[2, 2])
    x = net.clip(x, "clip")
    x = net.node("GlobalAveragePool", [net.conv(x, (4, 6), "second")], "pooled")
    return net.model(net.tag(net.node("Exp", [x], "end"), cpu=True) if end_on_cpu else x)


def built(model: Model) -> tuple[Network, Program]:
    divided = divide(model, Division("hi3516cv500"))
    random = np.random.default_rng(0)
    images = [random.integers(0, 256, (1, 3, 16, 16)).astype(np.float32) / 64 for _ in range(2)]
    statistics = calibrate(model, {"image": images}, {})
    return divided, to_program(divided, statistics, Precision(0, frozenset()), name="t", inputs={"image": PIXELS})


RAW = InputSettings("image", (1, 3, 16, 16), "u8", 0, (), 1.0, "BGR")


def written(folder: Path, divided: Network, program: Program, setting: InputSettings = RAW) -> None:
    functions = {}
    for segment in divided.segments:
        if segment.placement == "cpu":
            name = functions[segment.index] = f"segment{segment.index}"
            nodes = [node for layer in segment.layers for node in layer.nodes]
            emit_segment(subgraph(divided.graph, nodes, segment.inputs, segment.outputs), name, folder / "cpu" / name)
    files = board_sources(divided, program, caffe_pair(divided), (setting,), functions, "my-net.2")
    (folder / "board").mkdir()
    for name, text in files.items():
        (folder / "board" / name).write_text(text)
    assert set(files) == {"my_net_2_run.h", "my_net_2_run.c", "nnkit_nnie_forward.h"}


def compiled(folder: Path, values: int, image_bytes: int = 3 * 16 * 16) -> Path:
    main = folder / "main.c"
    main.write_text(FAKE_NNIE.format(function="my_net_2", pixels=image_bytes, values=values))
    sources = [main, folder / "board" / "my_net_2_run.c", *folder.glob("cpu/*/segment*.c")]
    runtime = {path.name: path for path in folder.glob("cpu/*/nnkit_*.c")}
    includes = [f"-I{folder / 'board'}", *(f"-I{path}" for path in folder.glob("cpu/*"))]
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-g", "-fsanitize=address,undefined"]
    command = ["gcc", *flags, *includes, *map(str, sources), *map(str, runtime.values()), "-o", str(folder / "run")]
    done = subprocess.run([*command, "-lm"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "run"


@pytest.mark.parametrize("end_on_cpu", [True, False])
def test_segments_run_in_order(end_on_cpu: bool, tmp_path: Path):
    divided, program = built(network(end_on_cpu))
    written(tmp_path, divided, program)
    run = compiled(tmp_path, 6)
    image = np.random.default_rng(3).integers(0, 256, (3, 16, 16)).astype(np.uint8)
    image.tofile(tmp_path / "image.bin")
    expected = simulate(program, {"image": image})
    (tmp_path / "given").mkdir()
    for segment in divided.segments:
        for name in segment.outputs if segment.placement == "npu" else ():
            expected[name].astype("<i4").tofile(tmp_path / "given" / f"{name}.bin")
    done = subprocess.run([run], cwd=tmp_path, env={"FAILS_AT": "-1"}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert np.array_equal(np.fromfile(tmp_path / "got_0_image.bin", np.uint8), image.ravel())
    passed_on = np.fromfile(tmp_path / "got_1_clip.bin", "<i4")
    assert np.array_equal(passed_on, STORED.quantize(expected["clip"]).ravel())
    last = program.outputs[0]
    real = program.tensors[last].format.dequantize(expected[last]).ravel()
    np.testing.assert_allclose(np.fromfile(tmp_path / "result.bin", "<f4"), real, rtol=1e-6)


def test_an_error_of_the_nnie_ends_the_run(tmp_path: Path):
    divided, program = built(network(False))
    written(tmp_path, divided, program)
    run = compiled(tmp_path, 6)
    np.zeros((3, 16, 16), np.uint8).tofile(tmp_path / "image.bin")
    (tmp_path / "given").mkdir()
    np.zeros(4 * 8 * 8, "<i4").tofile(tmp_path / "given" / "first.bin")
    done = subprocess.run([run], cwd=tmp_path, env={"FAILS_AT": "1"}, capture_output=True, text=True, check=False)
    assert done.returncode == 42
    assert not (tmp_path / "result.bin").exists()


def shared_image() -> Model:
    """The image is read by the NNIE's first segment and by the CPU's."""
    net = Net(1)
    image = net.input("image", 3, 16, 16)
    both = net.node("Add", [net.clip(net.conv(image, (3, 3), "conv"), "clip"), net.clip(image, "other")], "sum")
    return net.model(net.node("GlobalAveragePool", [net.conv(both, (3, 6), "end")], "pooled"))


def normalized(
    image_type: Literal["u8", "yvu420sp", "yvu422sp"], order: Literal["RGB", "BGR"] = "BGR"
) -> InputSettings:
    return InputSettings("image", (1, 3, 16, 16), image_type, 5, (104.0, 117.0, 123.0), 1 / 64, order)


def test_a_cpu_segment_gets_the_image_as_the_chip_normalises_it(tmp_path: Path):
    model = shared_image()
    divided = divide(model, Division("hi3516cv500"))
    setting = normalized("u8")
    pixels = np.random.default_rng(3).integers(0, 256, (3, 16, 16)).astype(np.uint8)
    means = np.float32(setting.mean).reshape(3, 1, 1)
    image = (pixels.astype(np.float32) - means) * np.float32(setting.data_scale)
    statistics = calibrate(model, {"image": [image[None]]}, {})
    program = to_program(divided, statistics, Precision(0, frozenset()), name="t", inputs={"image": Float(32)})
    written(tmp_path, divided, program, setting)
    run = compiled(tmp_path, 6)
    pixels.tofile(tmp_path / "image.bin")
    expected = simulate(program, {"image": image})
    (tmp_path / "given").mkdir()
    for segment in divided.segments:
        for name in segment.outputs if segment.placement == "npu" else ():
            expected[name].astype("<i4").tofile(tmp_path / "given" / f"{name}.bin")
    done = subprocess.run([run], cwd=tmp_path, env={"FAILS_AT": "-1"}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert np.array_equal(np.fromfile(tmp_path / "got_0_image.bin", np.uint8), pixels.ravel())
    handed = {name: expected[name] for name in divided.segments[1].outputs}
    assert "other" in handed or "sum" in handed
    for name, values in handed.items():
        found = np.fromfile(tmp_path / f"got_1_{name}.bin", "<i4")
        assert np.array_equal(found, STORED.quantize(values).ravel())


def opencv_pixels(frame: NDArray[np.uint8], chroma: str, order: str) -> NDArray[np.uint8]:
    """A camera frame of 16 x 16 as planar pixels, by OpenCV."""
    luma, pairs = frame[:256].reshape(16, 16), frame[256:].reshape(-1, 8, 2)
    if chroma == "yvu420sp":
        code = cv2.COLOR_YUV2RGB_NV21 if order == "RGB" else cv2.COLOR_YUV2BGR_NV21
        return cv2.cvtColor(frame.reshape(24, 16), code).transpose(2, 0, 1)
    packed = np.empty((16, 16, 2), np.uint8)  # U Y V Y
    packed[:, 0::2, 0], packed[:, 1::2, 0], packed[..., 1] = pairs[..., 1], pairs[..., 0], luma
    code = cv2.COLOR_YUV2RGB_UYVY if order == "RGB" else cv2.COLOR_YUV2BGR_UYVY
    return cv2.cvtColor(packed, code).transpose(2, 0, 1)


@pytest.mark.parametrize("order", ["RGB", "BGR"])
@pytest.mark.parametrize("image_type", ["yvu420sp", "yvu422sp"])
def test_the_cpu_gets_the_pixels_of_a_camera_frame_and_the_nnie_the_frame(
    image_type: Literal["yvu420sp", "yvu422sp"], order: Literal["RGB", "BGR"], tmp_path: Path
):
    """OpenCV's conversion is in fixed point: a pixel may differ by one."""
    setting, model = normalized(image_type, order), shared_image()
    divided = divide(model, Division("hi3516cv500"))
    size = 256 * 3 // 2 if image_type == "yvu420sp" else 256 * 2
    frame = np.random.default_rng(5).integers(0, 256, size).astype(np.uint8)
    pixels = opencv_pixels(frame, image_type, order)
    means = np.float32(setting.mean).reshape(3, 1, 1)
    image = (pixels.astype(np.float32) - means) * np.float32(setting.data_scale)
    statistics = calibrate(model, {"image": [image[None]]}, {})
    program = to_program(divided, statistics, Precision(0, frozenset()), name="t", inputs={"image": Float(32)})
    written(tmp_path, divided, program, setting)
    header = (tmp_path / "board" / "my_net_2_run.h").read_text()
    assert f"inputs[0]: image, a frame YVU{image_type[3:6]}SP of {size} bytes." in header
    run = compiled(tmp_path, 6, size)
    frame.tofile(tmp_path / "image.bin")
    expected = simulate(program, {"image": image})
    (tmp_path / "given").mkdir()
    for segment in divided.segments:
        for name in segment.outputs if segment.placement == "npu" else ():
            expected[name].astype("<i4").tofile(tmp_path / "given" / f"{name}.bin")
    done = subprocess.run([run], cwd=tmp_path, env={"FAILS_AT": "-1"}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert np.array_equal(np.fromfile(tmp_path / "got_0_image.bin", np.uint8), frame)  # untouched
    for name in divided.segments[1].outputs:
        found = np.fromfile(tmp_path / f"got_1_{name}.bin", "<i4")
        gap = np.abs(found - STORED.quantize(expected[name]).ravel())
        assert gap.max() <= setting.data_scale * 4096 + 1
        assert np.mean(gap <= 1) > 0.8
    (note,) = frames_on_the_cpu(divided, (setting,))
    assert note.startswith("input image: the CPU reads this camera frame too")
    assert frames_on_the_cpu(divided, (normalized("u8"),)) == ()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (Preprocess("bgr", resize=Resize(16, 16, "bilinear", letterbox=True)), "(letterbox)"),
        (Preprocess("bgr", CropBox(0, 0, 20, 20), True, Resize(16, 16, "bilinear")), "(crop, flip, resize)"),
        (Preprocess("bgr", mean=(104.0, 117.0, 123.0)), ""),
    ],
)
def test_what_a_recipe_does_to_pictures_alone_is_told_of_camera_frames(given: Preprocess, told: str) -> None:
    notes = frames_as_they_come([normalized("yvu420sp")], {"image": given})
    assert [("frames of 16 x 16 as they are" in note, told in note) for note in notes] == [(True, True)] * bool(told)
    assert frames_as_they_come([normalized("u8")], {"image": given}) == ()


def test_a_frame_that_the_nnie_alone_reads_is_passed_on(tmp_path: Path):
    divided, program = built(network(False))
    written(tmp_path, divided, program, normalized("yvu420sp"))
    source = (tmp_path / "board" / "my_net_2_run.c").read_text()
    assert '{"image", 3, 16, 16, 1, 420, inputs[0], NULL},' in source
    assert "from_frame" not in source

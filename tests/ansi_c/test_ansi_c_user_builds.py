"""What surrounds the library: the self-test, layouts of PlatformIO and Arduino, tools that look for faults."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from PIL import Image
from small_project import make_build, write_project

from nnkit import pipeline
from nnkit_ansi_c.runner import STRICT

MAIN = """
#include <stdio.h>
#include "small_selftest.h"

static small_arena arena;

int main(void)
{
    printf("%d\\n", small_selftest(&arena));
    return 0;
}
"""


@pytest.fixture(scope="module", params=["float32", "float32, inputs: arena", "int8"])
def artifact(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("user")
    path = write_project(folder)
    path.write_text(path.read_text().replace("gap8: {}", f"ansi_c: {{precision: {request.param}}}"))
    return pipeline.run(make_build(path, target="ansi_c"), folder / "out").folder / "artifact"


def compiled(artifact: Path, folder: Path, main: str, *flags: str) -> Path:
    """The library's own files and a main program, with warnings as errors."""
    (folder / "main.c").write_text(main)
    sources = [*artifact.glob("*.c"), *artifact.glob("*.S"), artifact / "device/small_selftest.c", folder / "main.c"]
    includes = [f"-I{artifact}", f"-I{artifact / 'device'}", f"-Wa,-I{artifact}"]
    command = ["cc", *STRICT, "-O1", "-g", "-DARDUINO", *flags, *includes, *map(str, sources), "-lm"]
    subprocess.run([*command, "-o", str(folder / "main")], check=True)
    return folder / "main"


def test_the_self_test_passes_and_notices_other_weights(artifact: Path, tmp_path: Path) -> None:
    main = compiled(artifact, tmp_path, MAIN)
    assert subprocess.check_output([main], text=True) == "0\n"
    broken = tmp_path / "broken"
    shutil.copytree(artifact, broken)
    content = np.frombuffer((broken / "small_weights.bin").read_bytes(), np.uint8).copy()
    content[::3] ^= 0x15
    (broken / "small_weights.bin").write_bytes(content.tobytes())
    assert int(subprocess.check_output([compiled(broken, tmp_path, MAIN)], text=True)) > 0


def test_a_picture_goes_in_by_from_pixels_and_comes_out_right(artifact: Path, tmp_path: Path) -> None:
    """Raw pixels to outputs by the artifact's example; ONNX Runtime on what Pillow makes of them is the truth."""
    shutil.copytree(artifact, tmp_path / "lib")
    make = [
        "make",
        "-s",
        "example_picture",
        "CC=cc",
        "CFLAGS=-O1 -std=c90 -pedantic-errors -Wall -Wextra -Werror -Ipreprocess",
    ]
    subprocess.run(make, cwd=tmp_path / "lib", check=True)
    pixels = np.random.default_rng(3).integers(0, 256, (31, 50, 3), np.uint8)
    (tmp_path / "picture.ppm").write_bytes(b"P6\n# by a test\n50 31\n255\n" + pixels.tobytes())
    command = [tmp_path / "lib/example_picture", tmp_path / "picture.ppm", tmp_path / "outputs.bin"]
    subprocess.run(command, check=True)
    image = Image.fromarray(pixels).convert("L").resize((40, 40), Image.Resampling.BILINEAR)
    session = onnxruntime.InferenceSession(artifact.parent / "float.onnx")
    (expected,) = session.run(None, {"x": np.asarray(image, np.float32)[None, None]})
    description = json.loads((artifact / "small.json").read_text())
    (output,) = description["outputs"]
    assert description["inputs"][0]["preprocess"]["resize"] == {"filter": "bilinear", "letterbox": False, "fill": 0}
    raw = (tmp_path / "outputs.bin").read_bytes()
    if "scale" not in output:
        np.testing.assert_allclose(np.frombuffer(raw, np.float32), expected.ravel(), rtol=1e-4, atol=1e-5)
        return
    real = (np.frombuffer(raw, np.uint8).astype(float) - output["zero_point"]) * output["scale"]
    channels_last = expected[0].transpose(1, 2, 0) if expected.ndim == 4 else expected
    assert np.corrcoef(real, channels_last.ravel())[0, 1] > 0.99
    header = (artifact / "small.h").read_text()
    assert "gray; resized to 40 x 40 pixels (bilinear); pixels 0 to 255 as they are" in header
    damaged = subprocess.run([command[0], artifact / "small.h", tmp_path / "no.bin"], capture_output=True, text=True)
    assert (damaged.returncode, damaged.stderr) == (2, "give a binary PGM or PPM of 8 bits and a file to write\n")


def test_layouts_of_platformio_and_arduino(artifact: Path) -> None:
    """Neither tool is run here: what they would compile is, by `compiled`, and the example is left out."""
    described = json.loads((artifact / "library.json").read_text())
    assert described["name"] == "small"
    assert "-<example.c>" in described["build"]["srcFilter"]
    properties = dict(line.split("=", 1) for line in (artifact / "library.properties").read_text().splitlines())
    assert properties["includes"] == "small.h"
    assert {"name", "version", "author", "maintainer", "sentence", "paragraph", "architectures"} <= set(properties)
    text = sum(path.stat().st_size for path in artifact.rglob("*") if path.suffix in (".c", ".h", ".S"))
    assert text < 150_000


def test_valgrind_sees_no_fault(artifact: Path, tmp_path: Path) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    main = compiled(artifact, tmp_path, MAIN)
    command = ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full", str(main)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


def test_cppcheck_finds_nothing(artifact: Path) -> None:
    if shutil.which("cppcheck") is None:
        pytest.skip("cppcheck is not installed")
    command = ["cppcheck", "-q", "--std=c89", "--enable=warning,performance,portability", "--error-exitcode=3"]
    files = [*artifact.glob("*.c"), *artifact.glob("device/*.c")]
    done = subprocess.run([*command, f"-I{artifact}", *map(str, files)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr

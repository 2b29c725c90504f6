"""The whole application on the host: camera frame and box -> crop -> network -> match, in C and in Python."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from nnkit.builds import open_build
from nnkit.postprocess import Box, DescriptorMatch, FaceCrop, Gallery, crop_face
from nnkit.simulate import simulate

from .conftest import REPOSITORY, run_command

RECIPE = REPOSITORY / "recipes" / "gap8_reid" / "recipe.yaml"
BOXES = [(60, 40, 130, 130), (65, 44, 124, 128), (-20, 10, 150, 150), (200, 120, 140, 150)]
HEIGHT, WIDTH = 240, 320

DRIVER = r"""
#include <stdio.h>
#include "gap8_reid.h"
#include "nnkit_face_crop.h"
#include "nnkit_match.h"
#include "nnkit_port_host.h"

static nnkit_i32 l2[(GAP8_REID_L2_BYTES + 3) / 4], l1[(GAP8_REID_L1_BYTES + 4) / 4];
static nnkit_u8 pixels[240 * 320];
static nnkit_i16 image[GAP8_REID_IMAGE_ELEMENTS], descriptor[GAP8_REID_DESCRIPTOR_ELEMENTS];
static nnkit_gallery gallery;
static nnkit_face_crop_scratch scratch;

int main(int argc, char **argv)
{
    struct nnkit_port port = {0, 0};
    struct gap8_reid_context context;
    nnkit_frame frame;
    nnkit_box box;
    nnkit_match match;
    nnkit_u32 index;
    FILE *file = fopen(argv[2], "rb");
    int number = 0;

    (void)argc;
    if (!file || fread(pixels, 1, sizeof pixels, file) != sizeof pixels) return 2;
    port.file = fopen(argv[1], "rb");
    context.l2 = (nnkit_u8 *)l2;
    context.l1 = (nnkit_u8 *)l1;
    context.port = &port;
    context.parts = 1;
    frame.pixels = pixels;
    frame.width = frame.stride = 320;
    frame.height = 240;
    nnkit_gallery_init(&gallery);
    while (scanf("%d %d %d %d", &box.x, &box.y, &box.width, &box.height) == 4) {
        if (nnkit_face_crop(&frame, &box, &scratch, image)) return 3;
        if (gap8_reid_run(&context, image, descriptor)) return 4;
        if (nnkit_gallery_match(&gallery, descriptor, &match)) return 5;
        printf("%d %u %u %u\n", match.known, (unsigned)match.index, (unsigned)match.distance.high,
               (unsigned)match.distance.low);
        if (number++ == 0 && nnkit_gallery_enrol(&gallery, descriptor, &index)) return 6;
    }
    return 0;
}
"""


def test_c_and_python_recognise_alike(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler on this machine")
    done = run_command(
        "run", RECIPE, "--no-qemu", "--out", tmp_path, cwd=tmp_path, env={"NNKIT_CACHE": str(tmp_path / "cache")}
    )
    assert done.code == 0, done.err
    build = open_build(tmp_path / "gap8_reid" / "gap8")
    artifact = build.folder / "artifact"
    frame = np.random.default_rng(5).integers(0, 256, (HEIGHT // 8, WIDTH // 8)).repeat(8, 0).repeat(8, 1)
    frame = np.ascontiguousarray(frame.astype(np.uint8))
    (tmp_path / "frame.bin").write_bytes(frame.tobytes())
    (tmp_path / "driver.c").write_text(DRIVER)
    sources = [*artifact.glob("*.c"), *artifact.glob("postprocess/*.c"), artifact / "host" / "nnkit_port_host.c"]
    includes = [f"-I{artifact}", f"-I{artifact / 'host'}", f"-I{artifact / 'postprocess'}"]
    program = tmp_path / "driver"
    command = [compiler, "-O1", *includes, "-o", program, tmp_path / "driver.c", *sources]
    subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True)
    found = subprocess.run(
        [program, artifact / "weights.bin", tmp_path / "frame.bin"],
        input="\n".join(" ".join(map(str, box)) for box in BOXES),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")

    source, result = (build.program.tensors[name] for name in ("image", build.program.outputs[0]))
    gallery = Gallery(DescriptorMatch(512, result.fixed, 16, 8.5))
    for line, box in zip(found, BOXES, strict=False):
        image = crop_face(frame, Box(*box), FaceCrop(128, format=source.fixed)).reshape(source.shape)
        descriptor = simulate(build.program, {"image": image})[result.name].ravel()
        match = gallery.match(descriptor)
        known, index, high, low = map(int, line.split())
        assert bool(known) is match.known
        if match.squared_distance is not None:
            assert (index, (high << 32) + low) == (match.index, match.squared_distance)
        if not len(gallery):
            gallery.enrol(descriptor)

"""The emitted sources: deterministic, and clean in C90, C99 and C++ on every compiler at hand."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from nnkit.c.postprocess.emit import emit_postprocess, postprocess_files
from nnkit.errors import UsageError, UserFileError
from nnkit.postprocess import (
    ArgMax,
    DescriptorMatch,
    Detections,
    FaceCrop,
    L2Normalize,
    Numbers,
    Softmax,
    TopK,
    Yolo,
    YoloHead,
)
from nnkit.program import Affine, Fixed, Float

BOTH = [FaceCrop(), DescriptorMatch(length=512, format=Fixed(16, 10), capacity=16, threshold=1.25)]
S8, U16 = Numbers(8, True, 0.02, 7), Numbers(16, False, 0.001, 30_000)
HEADS = (YoloHead(0, 9, 7, ((99, 44), (800, 900))), YoloHead(1, 300, 200, ((9000, 8000), (1, 1))))
VARIANTS = {
    "raw": BOTH,
    "unit": [
        FaceCrop(size=96, border="fill", fill=9, format=Fixed(16, 7)),
        DescriptorMatch(64, Fixed(16, 3), 4, 0.5, normalize=True),
    ],
    "int8": [FaceCrop(size=32, format=Fixed(8, -1)), DescriptorMatch(64, Fixed(8, 3), 4, 0.5)],
    "uint": [
        FaceCrop(size=32, format=Fixed(16, 8, signed=False)),
        DescriptorMatch(64, Fixed(8, 3, signed=False), 4, 0.5, normalize=True),
    ],
    "detections": [
        Detections("ssd", "center_size", 2, 3, S8, S8, (0.1,) * 4, 0.5, 0.45, 2, 2, ((8192, 8192, 999, 900),) * 2),
        *(word(4, 9, U16) for word in (Softmax, ArgMax, L2Normalize)),
        TopK(4, 9, Numbers(), 3),
        Yolo("v3", HEADS, 4, (S8, S8), 0.5, 0.45, 9, 4),
    ],
    "floats": [
        Detections(
            "nms", "center", 70_000, 1, Numbers(), Numbers(), (0.01,) * 4, 0.5, 0.45, 9, 2, classes_first=True
        ),
        *(word(4, 9, Numbers()) for word in (Softmax, ArgMax, L2Normalize)),
        DescriptorMatch(64, Float(32), 4, 0.5, normalize=True),
        Yolo("x", HEADS[:1], 4, (Numbers(),), 0.5, 0.45, 9, 4, clip=True),
    ],
    "always": [  # comparisons that are always true or false
        Detections("nms", "corners", 9, 1, U16, S8, (0.01,) * 4, -99.0, 0.0, 9, 2, background=0, clip=True),
        DescriptorMatch(64, Affine(8, (0.1,), (128,)), 4, 0.5, normalize=True),
        Yolo("v5", HEADS[:1], 1, (S8,), 0.0, 0.0, 1, 1, activated=True),
    ],
}
RV32 = ["-march=rv32imc", "-mabi=ilp32", "-ffreestanding"]
COMPILERS = [
    *(("gcc", standard, []) for standard in ("c90", "c99", "c11")),
    *(("clang", standard, []) for standard in ("c90", "c99")),
    *(("g++", standard, ["-x", "c++"]) for standard in ("c++98", "c++11", "c++17")),
    *(("clang++", standard, ["-x", "c++"]) for standard in ("c++98", "c++11")),
    *(("riscv64-unknown-elf-gcc", standard, RV32) for standard in ("c90", "c99")),
]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("compiler", "standard", "flags"), COMPILERS, ids=lambda value: str(value))
def test_sources_are_clean(
    compiler: str, standard: str, flags: list[str], variant: str, tmp_path: Path, compile_sources
) -> None:
    emit_postprocess(VARIANTS[variant], tmp_path)
    if "riscv" in compiler and variant in ("detections", "floats"):  # they include <math.h>
        flags = [*flags, "--specs=picolibc.specs"]
    compile_sources(compiler, standard, tmp_path, *flags)


def test_objects_hold_no_writable_data_and_call_nothing(tmp_path: Path, compile_sources) -> None:
    """No heap, no state: on rv32imc the objects have empty .data and .bss and need no symbol of anyone else's."""
    emit_postprocess(VARIANTS["unit"], tmp_path)
    compile_sources("riscv64-unknown-elf-gcc", "c99", tmp_path, *RV32)
    objects = sorted(path.name for path in tmp_path.glob("*.o"))
    assert objects == ["nnkit_face_crop.o", "nnkit_match.o"]
    listing = subprocess.run(
        ["riscv64-unknown-elf-nm", *objects], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    kinds = {name: kind for kind, name in re.findall(r" ([A-Za-z]) (\w+)$", listing, re.MULTILINE)}
    assert kinds["nnkit_face_crop"] == "T"
    assert set(kinds.values()) <= {"T", "t", "r"}, listing


def test_same_stages_give_the_same_bytes(tmp_path: Path) -> None:
    first = emit_postprocess(BOTH, tmp_path / "a")
    second = emit_postprocess(BOTH, tmp_path / "b")
    assert [path.name for path in first] == [path.name for path in second]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_only_the_stages_asked_for_are_written() -> None:
    assert postprocess_files([]) == {}
    crop_only = postprocess_files([FaceCrop(size=64)])
    assert "nnkit_match.c" not in crop_only
    assert "#define NNKIT_FACE_CROP_SIZE 64 " in crop_only["nnkit_postprocess_config.h"]
    assert "NNKIT_MATCH" not in crop_only["nnkit_postprocess_config.h"]


def test_the_threshold_is_written_in_two_halves() -> None:
    header = postprocess_files([DescriptorMatch(4, Fixed(16, 0), 2, threshold=2.0**20 + 1)])[
        "nnkit_postprocess_config.h"
    ]
    high = int(re.search(r"LIMIT_HIGH (0x\w{8})U", header)[1], 16)  # type: ignore[index]
    low = int(re.search(r"LIMIT_LOW (0x\w{8})U", header)[1], 16)  # type: ignore[index]
    assert (high << 32) + low == (2**20 + 1) ** 2


def test_a_repeated_stage_is_refused() -> None:
    with pytest.raises(UsageError, match="face_crop appears twice"):
        postprocess_files([FaceCrop(), FaceCrop(size=64)])


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(UserFileError) as caught:
        emit_postprocess(BOTH, tmp_path / "out")
    assert caught.value.where == str(tmp_path / "out")

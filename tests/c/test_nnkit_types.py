"""The integer-types header: exact widths in every standard, and refusal where they cannot be had."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from nnkit.c.sources import types_header

PROGRAM = """
#include "nnkit_types.h"
NNKIT_STATIC_CHECK(i8_is_signed, (nnkit_i8)-1 < 0 && sizeof(nnkit_i8) == 1);
NNKIT_STATIC_CHECK(u8_is_unsigned, (nnkit_u8)-1 == 255);
NNKIT_STATIC_CHECK(i16_is_signed, (nnkit_i16)-1 < 0 && sizeof(nnkit_i16) == 2);
NNKIT_STATIC_CHECK(u16_is_unsigned, (nnkit_u16)-1 == 65535U);
NNKIT_STATIC_CHECK(i32_is_signed, (nnkit_i32)-1 < 0 && sizeof(nnkit_i32) == 4);
NNKIT_STATIC_CHECK(u32_is_unsigned, (nnkit_u32)-1 == 4294967295U);
NNKIT_STATIC_CHECK(has_64_bits, NNKIT_HAS_64BIT);
NNKIT_STATIC_CHECK(i64_is_signed, (nnkit_i64)-1 < 0 && sizeof(nnkit_i64) == 8);
NNKIT_STATIC_CHECK(u64_is_unsigned, (nnkit_u64)-1 > 0 && sizeof(nnkit_u64) == 8);
NNKIT_EXTERN_C_BEGIN
int nnkit_test(void);
NNKIT_EXTERN_C_END
int nnkit_test(void) { return 0; }
"""
RV32 = ["-march=rv32imc", "-mabi=ilp32", "-ffreestanding"]
COMPILERS = [
    *((compiler, standard, []) for compiler in ("gcc", "clang") for standard in ("c90", "c99", "c11")),
    *((compiler, standard, []) for compiler in ("g++", "clang++") for standard in ("c++98", "c++11", "c++17")),
    *(("riscv64-unknown-elf-gcc", standard, RV32) for standard in ("c90", "c99")),
]


def compile_text(text: str, compiler: str, standard: str, flags: list[str], folder: Path) -> tuple[int, str]:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    header = types_header()
    (folder / "nnkit_types.h").write_text(header)
    source = folder / ("probe.cc" if compiler.endswith("++") else "probe.c")
    source.write_text(text)
    warnings = ["-Wall", "-Wextra", "-Wconversion", "-Werror", "-pedantic-errors"]
    command = [compiler, f"-std={standard}", *warnings, *flags, "-c", source.name, "-o", "probe.o"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr


@pytest.mark.parametrize(("compiler", "standard", "flags"), COMPILERS, ids=str)
def test_types_have_their_width(compiler: str, standard: str, flags: list[str], tmp_path: Path) -> None:
    code, messages = compile_text(PROGRAM, compiler, standard, flags, tmp_path)
    assert code == 0, messages


@pytest.mark.parametrize("standard", ["c90", "c99"])
def test_a_false_static_check_stops_the_build(standard: str, tmp_path: Path) -> None:
    text = '#include "nnkit_types.h"\nNNKIT_STATIC_CHECK(never_true, sizeof(nnkit_i16) == 3);\n'
    code, messages = compile_text(text, "gcc", standard, [], tmp_path)
    assert code != 0
    assert "never_true" in messages

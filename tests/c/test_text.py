"""Names, comments and numbers as C text, compared with what a C compiler makes of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from nnkit.c.host_compiler import host_compiler
from nnkit.c.text import (
    braces,
    comment_text,
    float32_literal,
    identifier,
    int32_literal,
    integer_type,
    unique_identifiers,
)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("Conv_1", "conv_1"),
        ("/layer/Add:0", "layer_add_0"),
        ("3x3", "n3x3"),
        ("", "x"),
        ("ä", "x"),
        ("If", "if_"),
        ("Union", "union_"),
    ],
)
def test_an_identifier_resembles_the_name(name: str, wanted: str) -> None:
    assert identifier(name) == wanted


def test_reserved_names_are_left_alone() -> None:
    assert identifier("L2") == "l2"
    assert identifier("L2", {"l2"}) == "l2_"


def test_names_that_fall_together_are_counted() -> None:
    assert unique_identifiers(["a.b", "a/b", "a_b_2", "A_B"]) == {
        "a.b": "a_b", "a/b": "a_b_2", "a_b_2": "a_b_2_2", "A_B": "a_b_3",
    }  # fmt: skip


@pytest.mark.parametrize(
    "text", ["a */ b", "/* a", "*/*", "/*/", "line\nline", "trigraph \\", "trigraph ??/", "größe"]
)
def test_a_comment_ends_where_it_should(text: str, tmp_path: Path) -> None:
    compiler = host_compiler()
    if compiler is None:
        pytest.skip("no C compiler")
    source = tmp_path / "comment.c"
    source.write_text(f"/* {comment_text(text)} */\nint one = 1; // {comment_text(text)}\nint two = 2;\n")
    command = [compiler, "-Wall", "-Wextra", "-Werror", "-std=c99", "-c", str(source), "-o", str(tmp_path / "o")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_numbers_read_back_to_the_same_bits(tmp_path: Path) -> None:
    compiler = host_compiler()
    if compiler is None:
        pytest.skip("no C compiler")
    generator = np.random.default_rng(0)
    bits = generator.integers(0, 1 << 32, 200, dtype=np.uint64).astype(np.uint32)
    floats = [float(v) for v in bits.view(np.float32) if not np.isnan(v)]
    floats += [0.0, -0.0, 1.0, 1e-45, float("inf"), -float("inf")]
    integers = [0, 1, -1, (1 << 31) - 1, -(1 << 31)]
    source = tmp_path / "numbers.c"
    source.write_text(
        "#include <math.h>\n#include <stdio.h>\n"
        f"static const float f[] = {{{', '.join(map(float32_literal, floats))}}};\n"
        f"static const int i[] = {{{', '.join(map(int32_literal, integers))}}};\n"
        f"static const int same[] = {braces(integers[:4])};\n"
        "int main(void) { fwrite(f, 1, sizeof f, stdout); fwrite(i, 1, sizeof i, stdout);\n"
        "fwrite(same, 1, sizeof same, stdout); return 0; }\n"
    )
    program = tmp_path / "numbers"
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *flags, str(source), "-o", str(program)], check=True, timeout=60)
    out = subprocess.run([str(program)], check=True, capture_output=True, timeout=60).stdout
    wanted = np.array(floats, np.float32).tobytes() + np.array([*integers, *integers[:4]], np.int32).tobytes()
    assert out == wanted


def test_types_are_those_of_the_header() -> None:
    assert integer_type(16, True) == "nnkit_i16"
    assert integer_type(8, False) == "nnkit_u8"

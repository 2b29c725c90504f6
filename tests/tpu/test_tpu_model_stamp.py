"""Models without the time of their compilation: real ones of the compiler, run by the vendor's own libraries."""

from __future__ import annotations

import hashlib
import struct
import time
from pathlib import Path

import numpy as np
import pytest

from nnkit.errors import ToolError
from nnkit_tpu.chip_model import run_on_chip_model
from nnkit_tpu.compile import CompileOptions, compile_graph
from nnkit_tpu.model_stamp import without_time
from nnkit_tpu.program import TpuActivation, TpuGraph, TpuTensor
from nnkit_tpu.toolchain import Toolchain

SHAPE = (1, 2, 4, 4)


@pytest.mark.parametrize(("chip", "mode"), [("bm1684x", "F32"), ("bm1688", "F32"), ("cv181x", "BF16")])
def test_two_compilations_are_equal_in_every_byte_and_run(
    tpu_toolchain: Toolchain, tmp_path: Path, chip: str, mode: str
) -> None:
    tensors = {name: TpuTensor(name, SHAPE) for name in ("x", "y")}
    op = TpuActivation(name="y", inputs=("x",), output="y", function="abs", mode=mode)  # type: ignore[arg-type]
    graph = TpuGraph("net", tensors, (op,), ("x",), ("y",))
    models = []
    for folder in (tmp_path / "0", tmp_path / "1"):
        folder.mkdir()
        began = int(time.time())
        while int(time.time()) == began:  # the compiler's stamp counts seconds
            time.sleep(0.05)
        models.append(compile_graph(tpu_toolchain, graph, CompileOptions(chip, mode), folder).model)  # type: ignore[arg-type]
    assert models[0].read_bytes() == models[1].read_bytes()
    assert str(time.gmtime().tm_year).encode() + b"\n" not in models[0].read_bytes()
    x = np.linspace(-2, 2, 32, dtype=np.float32).reshape(SHAPE)
    (result,) = run_on_chip_model(tpu_toolchain, models[0], chip, {"x": x}).values()
    np.testing.assert_allclose(result, np.abs(x), rtol=2**-7)


def test_the_checksum_of_a_cvimodel_is_that_of_what_follows_its_header() -> None:
    body = b"table \x13\0\0\x002026-11-22 21:48:26\0 end" + b"weights 2026"
    header = (
        b"CviModel" + struct.pack("<I", len(body) - 12) + b"\1\4" + bytes(16) + b"cv181x".ljust(16, b"\0") + b"Cv"
    )
    changed = without_time(header + body)
    assert changed[48:] == body.replace(b"2026-11-22 21:48:26", b"1970-01-01 00:00:00")
    assert changed[14:30] == hashlib.md5(changed[48:]).digest()
    assert (changed[:14], changed[30:48]) == (header[:14], header[30:])


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (b"neither", "neither a bmodel nor a cvimodel"),
        (b"\xee\xaa\x55\xff" + struct.pack("<3I", 64, 8, 0) + bytes(56), "0 times, once is expected"),
    ],
)
def test_what_another_compiler_writes_is_refused(model: bytes, reason: str) -> None:
    with pytest.raises(ToolError, match=reason) as caught:
        without_time(model)
    assert "nnkit doctor --install tpu" in caught.value.remedy

"""Versions of real models: what the vendor's tool prints of them, and what its runtime refuses."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from nnkit.errors import ToolError
from nnkit_tpu.chip_model import run_on_chip_model
from nnkit_tpu.compile import CompileOptions, compile_graph
from nnkit_tpu.model_version import model_version, oldest_runtime
from nnkit_tpu.options import TpuOptions
from nnkit_tpu.program import TpuActivation, TpuGraph, TpuTensor
from nnkit_tpu.toolchain import Toolchain

SHAPE = (1, 2, 4, 4)
X = np.linspace(-2, 2, 32, dtype=np.float32).reshape(SHAPE)


def compiled(toolchain: Toolchain, folder: Path, options: CompileOptions) -> Path:
    folder.mkdir()
    tensors = {name: TpuTensor(name, SHAPE) for name in ("x", "y")}
    op = TpuActivation(name="y", inputs=("x",), output="y", function="abs", mode=options.mode)
    graph = TpuGraph("net", tensors, (op,), ("x",), ("y",))
    return compile_graph(toolchain, graph, options, folder, search=False).model


def told(toolchain: Toolchain, model: Path) -> str:
    command = [str(toolchain.compiler.parent / "model_tool"), "--info", str(model)]
    done = subprocess.run(command, env=toolchain.environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_a_bmodel_has_the_version_that_the_vendors_tool_prints(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    model = compiled(tpu_toolchain, tmp_path / "bm", CompileOptions("bm1688", "F32"))
    version = model_version(model.read_bytes())
    assert f"bmodel version: B.{version}\n" in told(tpu_toolchain, model)
    assert version.partition("+")[2] in oldest_runtime(version)


def test_a_cvimodel_of_an_older_version_computes_the_same(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    outputs = []
    for version in ("latest", "1.2"):
        options = CompileOptions("cv181x", "BF16", model_version=version)
        model = compiled(tpu_toolchain, tmp_path / version, options)
        found = model_version(model.read_bytes())
        assert re.search(rf"Cvimodel Version: {re.escape(found)}\.\d", told(tpu_toolchain, model))
        assert found == ("1.4" if version == "latest" else version)
        assert f"model version {found}" in oldest_runtime(found)
        (result,) = run_on_chip_model(tpu_toolchain, model, "cv181x", {"x": X}).values()
        outputs.append(result)
    assert np.array_equal(*outputs)


def test_a_runtime_refuses_a_cvimodel_that_is_newer_than_it(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    options = CompileOptions("cv181x", "BF16", model_version="1.5")
    model = compiled(tpu_toolchain, tmp_path / "new", options)
    assert model_version(model.read_bytes()) == "1.5"
    with pytest.raises(ToolError, match="refuses the model"):
        run_on_chip_model(tpu_toolchain, model, "cv181x", {"x": X})


def test_what_is_no_model_has_no_version() -> None:
    with pytest.raises(ToolError, match="neither a bmodel nor a cvimodel"):
        model_version(b"something else")


def test_only_a_cvimodel_can_be_older() -> None:
    assert TpuOptions.model_validate({"chip": "cv181x", "model_version": "1.2"}).model_version == "1.2"
    with pytest.raises(ValidationError, match="a bmodel has one version"):
        TpuOptions.model_validate({"chip": "bm1688", "model_version": "1.2"})

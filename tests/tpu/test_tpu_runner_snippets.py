"""The released runner snippets, compiled and run on the vendor's runtime libraries, with its chip model as the chip.

The headers in `board_headers` are ours and declare only what run.c uses; SAIL, of which there is no build for this
kind of machine, is played by a module that hands everything on to the chip model.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from nnkit.cli import app
from nnkit.errors import UnprovenError
from nnkit_tpu.chip_model import run_on_chip_model
from nnkit_tpu.toolchain import Toolchain

SIDE = 8
HEADERS = Path(__file__).parent / "board_headers"
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def _network(path: Path) -> None:
    """An image and a map in, two outputs: what a wrong order of inputs or outputs would show."""
    random = np.random.default_rng(1)
    weights = [
        numpy_helper.from_array(random.normal(0, 0.3, shape).astype(np.float32), name)
        for name, shape in (("w", (4, 3, 3, 3)), ("v", (4, 2, 3, 3)), ("u", (5, 4, 1, 1)))
    ]
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["seen"], name="seen", pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["map", "v"], ["told"], name="told", pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["seen", "told"], ["both"], name="both"),
        helper.make_node("Conv", ["both", "u"], ["scores"], name="scores"),
    ]
    inputs, outputs = (("image", 3), ("map", 2)), (("scores", 5), ("told", 4))
    graph = helper.make_graph(
        nodes,
        "two",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, count, SIDE, SIDE)) for name, count in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, count, SIDE, SIDE)) for name, count in outputs],
        weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def _artifact(folder: Path, options: str) -> tuple[Path, dict[str, Any]]:
    """A build without verification on the chip model, which these tests do themselves."""
    _network(folder / "net.onnx")
    random = np.random.default_rng(2)
    for name, channels in (("image", 3), ("map", 2)):
        (folder / name).mkdir()
        np.save(folder / name / "0.npy", random.normal(0, 1, (1, channels, SIDE, SIDE)).astype(np.float32))
    text = f"""nnkit: 1
name: two
model:
  path: net.onnx
  simplify: false
  inputs:
    image: {{calibration: {{images: image/*.npy}}}}
    map: {{calibration: {{images: map/*.npy}}}}
calibration: {{method: max}}
targets: {{tpu: {options}}}
"""
    (folder / "recipe.yaml").write_text(text, encoding="utf-8")
    arguments = ["run", str(folder / "recipe.yaml"), "--out", str(folder / "out"), "--no-cache", "--no-qemu"]
    done = CliRunner().invoke(app, arguments)
    assert isinstance(done.exception, UnprovenError), done.output
    artifact = folder / "out" / "two" / "tpu" / "artifact"
    interface: dict[str, Any] = json.loads((artifact / "interface.json").read_text(encoding="utf-8"))
    return artifact, interface


def _given(interface: dict[str, Any]) -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    whole = {"int8": lambda shape: random.integers(-128, 128, shape), "float32": lambda s: random.normal(0, 1, s)}
    return {p["name"]: whole[p["type"]](p["shape"]).astype(p["type"]) for p in interface["inputs"]}


def _libraries(toolchain: Toolchain, chip: str, links: Path) -> tuple[list[str], dict[str, str]]:
    """(what to link, the environment to run in): the runtime with the chip's model where a board has the chip."""
    links.mkdir()
    if chip.startswith("cv"):
        names = ["libcviruntime.so", "libcvicmodel.so"]
        linked = [str(toolchain.libraries / name) for name in names]
    else:
        library = toolchain.libraries / f"libbmlib_{chip}.so.0"
        (links / "libcmodel.so").symlink_to(toolchain.libraries / f"libcmodel_{chip}.so")
        (links / "libbmlib.so.0").symlink_to(library)
        linked = [str(toolchain.libraries / "libbmrt.so.1.0"), str(links / "libbmlib.so.0")]
    environment = dict(toolchain.environment, SET_CHIP_NAME=chip)
    environment["LD_LIBRARY_PATH"] = f"{links}:{environment.get('LD_LIBRARY_PATH', '')}"
    return [*linked, "-Wl,--allow-shlib-undefined"], environment


CASES = [("bm1684x", "quant_output: true"), ("cv181x", "quant_input: true, quant_output: true")]


@pytest.mark.parametrize(("chip", "options"), CASES)
def test_the_runners_give_what_the_chip_model_gives(
    tpu_toolchain: Toolchain, tmp_path: Path, chip: str, options: str
) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    artifact, interface = _artifact(tmp_path, f"{{chip: {chip}, trace: false, {options}}}")
    given, model = _given(interface), artifact / interface["model"]
    expected = run_on_chip_model(tpu_toolchain, model, chip, given)
    linked, environment = _libraries(tpu_toolchain, chip, tmp_path / "lib")
    place = tmp_path / "board"
    place.mkdir()
    source = artifact / "runner" / "run.c"
    subprocess.run([compiler, *STRICT, f"-I{HEADERS}", str(source), *linked, "-o", "run"], cwd=place, check=True)
    files = [f"{port['name']}.bin" for port in interface["inputs"]]
    for name, value in given.items():
        value.tofile(place / f"{name}.bin")

    printed = _c(place, environment, [str(model), *files])
    for index, port in enumerate(interface["outputs"]):
        found = np.fromfile(place / f"output_{index}.bin", port["type"]).reshape(port["shape"])
        np.testing.assert_array_equal(found, expected[port["name"]])
        assert f"{port['name']}: {found.nbytes} bytes" in printed.stdout
    if chip.startswith("cv"):  # the model of a BM chip takes a second to start
        (place / files[1]).write_bytes(b"short")
        needed = given[interface["inputs"][1]["name"]].nbytes
        assert f"{files[1]}: {needed} bytes are needed" in _c(place, environment, [str(model), *files]).stderr
    assert _c(place, environment, [str(model), files[0]]).returncode == 2

    (place / "sophon").mkdir()
    (place / "sophon" / "__init__.py").write_text("", encoding="utf-8")
    (place / "sophon" / "sail.py").write_text(SAIL, encoding="utf-8")
    _python(place, artifact, interface, given, environment if chip.startswith("cv") else dict(os.environ))
    for port in interface["outputs"]:
        found = np.load(place / f"{port['name']}.npy")
        assert (str(found.dtype), list(found.shape)) == (port["type"], port["shape"])
        np.testing.assert_array_equal(found, expected[port["name"]])


def _c(place: Path, environment: dict[str, str], arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["./run", *arguments],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=120,
        check=False,
    )


SAIL = '''
"""What run.py uses of SAIL; the chip is its model."""

from pathlib import Path

import numpy as np

from nnkit_tpu.chip_model import run_on_chip_model
from nnkit_tpu.toolchain import require_toolchain


class IOMode:
    SYSIO = "system memory in and out"


class Engine:
    def __init__(self, path, device, mode):
        assert (device, mode) == (0, IOMode.SYSIO)
        self.path = Path(path)

    def get_graph_names(self):
        return ["two"]

    def process(self, network, inputs):
        assert network == "two"
        assert all(type(value) is np.ndarray for value in inputs.values())
        return run_on_chip_model(require_toolchain(), self.path, "bm1684x", inputs)
'''


def _python(
    place: Path,
    artifact: Path,
    interface: dict[str, Any],
    given: dict[str, np.ndarray],
    environment: dict[str, str],
) -> None:
    for name, value in given.items():
        np.save(place / f"{name}.npy", value)
    names = [f"{port['name']}.npy" for port in interface["inputs"]]
    command = [sys.executable, str(artifact / "runner" / "run.py"), str(artifact / interface["model"]), *names]
    environment = dict(environment, PYTHONPATH=":".join((str(place), *filter(None, sys.path))))
    done = subprocess.run(
        command, cwd=place, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    usage = subprocess.run(
        command[:-1], cwd=place, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert usage.returncode == 1
    assert "usage: python run.py MODEL" in usage.stderr

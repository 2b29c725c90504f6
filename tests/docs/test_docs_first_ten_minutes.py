"""The page of the first ten minutes: its commands are run in order on a network like its, and print what it shows.

The network is smaller than the page's, so figures are left out of the comparison; the recipe agrees to the letter.
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from nnkit.cli import main

PAGE = Path(__file__).resolve().parents[2] / "docs" / "first_ten_minutes.md"
TOOLS = ("cc", "riscv64-unknown-elf-gcc", "qemu-system-riscv32")
SETS_UP = "setting up .venv (once)"
"""Said by `dev` itself, which is not run here."""


def steps() -> list[tuple[list[str], list[str]]]:
    """Each command's arguments, with the lines shown behind it."""
    found: list[tuple[list[str], list[str]]] = []
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                program, *arguments = shlex.split(line[2:])
                assert program == "../nnkit/dev"
                found.append((arguments, []))
            elif line not in ("...", SETS_UP):
                found[-1][1].append(line)
    return found


def without_figures(line: str) -> str:
    return " ".join(re.sub(r"-?\d[\d,.]*", "_", line.replace(", optimal", "").replace("optimal", "")).split())


def write_signs(folder: Path) -> None:
    """A network of the page's kind, an eighth of its size, and pictures by kind."""
    rng = np.random.default_rng(2)
    constants = {
        "w": rng.normal(0, 0.3, (4, 3, 3, 3)),
        "d": rng.normal(0, 0.4, (4, 1, 3, 3)),
        "fc": rng.normal(0, 2, (3, 4)),
        "b": rng.normal(0, 0.1, 3),
    }
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["c"], "conv", strides=[4, 4], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("Conv", ["r", "d"], ["e"], "depthwise", group=4, pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["e", "r"], ["s"], "sum"),
        helper.make_node("GlobalAveragePool", ["s"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "fc", "b"], ["g"], "classify", transB=1),
        helper.make_node("Softmax", ["g"], ["probabilities"], "softmax", axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "signs",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 64, 64])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [1, 3])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in constants.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), folder / "signs.onnx"
    )
    for kind in ("go", "stop", "yield"):
        (folder / "pictures" / kind).mkdir(parents=True)
        for index in range(20):
            pixels = rng.integers(0, 256, (6, 6, 3)).astype(np.uint8)
            picture = Image.fromarray(pixels).resize((96, 96), Image.Resampling.BICUBIC)
            picture.save(folder / "pictures" / kind / f"{index:03}.jpg")


@pytest.mark.skipif(any(shutil.which(tool) is None for tool in TOOLS), reason=f"needs {', '.join(TOOLS)}")
def test_every_command_prints_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_signs(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NNKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NNKIT_CALLED_AS", "../nnkit/dev")
    commands = steps()
    assert [arguments[0] for arguments, _ in commands] == ["init", "check", "run", "package", "simulate", "plan"]
    for arguments, shown in commands:
        monkeypatch.setattr(sys, "argv", ["nnkit", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        said = "".join(capsys.readouterr())
        assert ended.value.code == 0, said
        printed = {without_figures(line) for line in said.splitlines()}
        assert [line for line in shown if without_figures(line) not in printed] == [], said
    (recipe,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert Path("recipe.yaml").read_text(encoding="utf-8") == recipe

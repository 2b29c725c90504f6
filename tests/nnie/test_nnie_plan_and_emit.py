"""What a dry run accepts is written: the recipe's mistakes that concern the artifact are told before calibration."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nnie_networks import Net
from typer.testing import CliRunner

from nnkit.cli import app
from nnkit.errors import RecipeError

RECIPE = """\
nnkit: 1
name: net
model:
  path: net.onnx
  inputs:
    left: {{preprocess: {{color: {left}}}, calibration: {{images: a.npy}}}}
    right: {{preprocess: {{color: bgr{right}}}, calibration: {{images: a.npy}}}}
{more}targets:
  nnie: {{chip: hi3559av100{options}}}
"""


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"right": ", scale: 0.0001"}, "the chip's scale lies above 1/4096"),
        ({"left": "rgb"}, "the cfg has one order of colours for all inputs, the recipe has rgb and bgr"),
        ({"options": ", gfpq_param_file: a.npy"}, "the mapper of Hi3559AV100 reads no gfpq_param_file"),
        ({"options": ", roi_coordinate_files: [a.npy]"}, "the network has no ROI layer"),
        ({"options": ", inputs: {up: {image_type: u8}}"}, "the network has no input 'up'"),
        ({"options": ", custom: [su, sum]"}, "'su' matches no layer of the network as it is divided"),
        ({"options": ", custom: [act*]"}, "activation in place, which is part of layer 'l'\n  fix: name 'l'"),
        ({"more": "postprocess: [{kind: pca_combine, components: 512}]\n"}, "are not 2 x 512 components"),
    ],
)
def test_mistake_4_plan_refuses_what_emit_would(change: dict[str, str], reason: str, tmp_path: Path):
    net = Net()
    left, right = (net.conv(net.input(name, 3, 16, 16), (3, 4), name[0]) for name in ("left", "right"))
    both = net.node("Add", [net.node("Relu", [left], "active"), right], "sum")
    (tmp_path / "net.onnx").write_bytes(net.model(both).onnx_bytes)
    np.save(tmp_path / "a.npy", np.ones((1, 3, 16, 16), np.float32))
    (tmp_path / "recipe.yaml").write_text(
        RECIPE.format(**{"left": "bgr", "right": "", "more": "", "options": ""} | change)
    )
    for command in (["plan"], ["run", "--out", str(tmp_path / "out")]):
        done = CliRunner().invoke(app, [*command, str(tmp_path / "recipe.yaml")])
        assert isinstance(done.exception, RecipeError), done.output
        assert reason in str(done.exception)
        assert "emit" not in done.output

"""A small network with a spatial transformer, and a recipe that builds it for the NNIE."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from nnie_networks import Net
from PIL import Image
from small_project import make_build

from nnkit.custom_ops import WarpPerspective
from nnkit.graph import Model
from nnkit.stages import Build

SIDE, OUT = 24, (16, 20)

RECIPE = """\
nnkit: 1
name: stn
model:
  path: stn.onnx
  inputs:
    face:
      preprocess: {{color: gray}}
      calibration: {{images: images/*.png}}
restructure: []
tags: {{hp: [feature]}}
targets:
  nnie: {options}
"""


STEPS = (1, 1, 40, 1, 1, 40, 0.05, 0.05, 0)
"""How far the image moves each entry of the matrix."""


def stn_model(extra: bool = False) -> Model:
    """face [1, 1, 24, 24] -> matrix -> warp [1, 1, 16, 20] -> feature [1, 12]; extra: NET reads another input too."""
    net = Net(5)
    image = net.input("face", 1, SIDE, SIDE)
    x = net.node("Relu", [net.conv(image, (1, 6), "stn_conv", kernel=5, pad=2, strides=[4, 4])], "stn_relu")
    net.constant("matrix.w", np.random.default_rng(1).normal(0, 1, (9, 6, 6, 6)) * 2e-5 * [[[[s]]] for s in STEPS])
    net.constant("matrix.b", [1.05, 0.08, 1.5, -0.06, 0.95, 3.0, 0.0005, -0.001, 1.0])
    matrix = net.node("Conv", [x, "matrix.w", "matrix.b"], "matrix", kernel_shape=[6, 6])
    warp = WarpPerspective(out_h=OUT[0], out_w=OUT[1]).node([image, matrix], ["warped"], "warp")
    if extra:
        side = net.conv(net.input("side", 1, *OUT), (1, 1), "side_conv")
    net.nodes.append(warp)
    x = net.node("Add", ["warped_conv", side], "joined") if extra else "warped"
    if extra:
        net.conv("warped", (1, 1), "warped_conv")
        net.nodes.insert(len(net.nodes) - 2, net.nodes.pop())
    x = net.node("Relu", [net.conv(x, (1, 8), "net_conv", strides=[2, 2])], "net_relu")
    weight = net.constant("feature.w", np.random.default_rng(2).normal(0, 0.01, (12, 8, 8, 10)))
    return net.model(net.node("Conv", [x, weight], "feature", kernel_shape=[8, 10]))


def project(folder: Path, options: str = "{chip: hi3516cv500, compile_mode: 2}") -> Path:
    onnx.save(stn_model().proto(), folder / "stn.onnx")
    (folder / "images").mkdir()
    random = np.random.default_rng(0)
    for index in range(5):
        coarse = random.integers(0, 256, (6, 6)).astype(np.uint8)
        Image.fromarray(coarse).resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(folder / f"images/{index}.png")
    (folder / "recipe.yaml").write_text(RECIPE.format(options=options))
    return folder / "recipe.yaml"


def build_of(recipe: Path) -> Build:
    return make_build(recipe, target="nnie")


def face(index: int = 0) -> np.ndarray:
    """[1, 24, 24] pixels that calibration did not see."""
    coarse = np.random.default_rng(100 + index).integers(0, 256, (6, 6)).astype(np.uint8)
    return np.asarray(Image.fromarray(coarse).resize((SIDE, SIDE), Image.Resampling.BICUBIC))[None]

"""Mistakes that a new user makes, by the command line: each is told with its layer and its own remedy."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np
import pytest
from nnkit_command import run_nnkit
from numpy.typing import NDArray

from benchmarks.caffe_corpus import caffemodel, layer

RECIPE = """\
nnkit: 1
name: net
model:
  path: net.prototxt
  weights: net.caffemodel
  inputs:
    {input}:
      preprocess: {{color: bgr}}
      calibration: {{images: images/*.png}}
{tags}targets:
  nnie: {{chip: hi3516cv500{options}}}
"""


@dataclass
class CaffeNet:
    """A Caffe network as text, with weights for its convolutions."""

    input_name: str = "data"
    text: str = ""
    weights: dict[str, Sequence[NDArray[np.float32]]] = field(default_factory=dict)

    def conv(self, bottom: str, name: str, top: str | None = None, channels: tuple[int, int] = (4, 4)) -> str:
        """channels: (in, out)."""
        random = np.random.default_rng(len(self.weights))
        parameters = f"convolution_param {{ num_output: {channels[1]} kernel_size: 1 }}"
        weight = random.normal(0, 0.3, (channels[1], channels[0], 1, 1)).astype(np.float32)
        self.weights[name] = [weight, np.zeros(channels[1], np.float32)]
        return self.add("Convolution", parameters, bottom, name, top)

    def add(self, kind: str, parameters: str, bottoms: str, name: str, top: str | None = None) -> str:
        self.text += layer(kind, parameters, bottoms=bottoms, tops=top or name, name=name)
        return top or name

    def write(self, folder: Path, tags: str, options: str) -> None:
        header = f'name: "net"\ninput: "{self.input_name}"\ninput_shape {{ dim: 1 dim: 3 dim: 16 dim: 16 }}\n'
        (folder / "net.prototxt").write_text(header + self.text)
        (folder / "net.caffemodel").write_bytes(caffemodel(self.weights))
        (folder / "images").mkdir()
        pixels = np.random.default_rng(0).integers(0, 256, (16, 16, 3)).astype(np.uint8)
        cv2.imwrite(str(folder / "images" / "0.png"), pixels)
        (folder / "recipe.yaml").write_text(RECIPE.format(input=self.input_name, tags=tags, options=options))


def told(folder: Path, net: CaffeNet, code: int, tags: str = "", options: str = "") -> str:
    """What `nnkit run` says on stderr from the error on."""
    net.write(folder, tags, options)
    environment = {**os.environ, "NNKIT_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    done = run_nnkit("run", "recipe.yaml", "--out", "out", cwd=folder, env=environment)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "out" / "net" / "nnie").exists()
    return done.stderr.partition("error: ")[2]


def plain() -> CaffeNet:
    net = CaffeNet()
    net.conv(net.conv("data", "conv1", channels=(3, 4)), "conv2")
    return net


@pytest.mark.parametrize("by_name", [True, False])
def test_hp_with_compile_mode_0(tmp_path: Path, by_name: bool) -> None:
    net, name = CaffeNet(), "conv2_hp" if by_name else "conv2"
    net.conv(net.conv("data", "conv1", channels=(3, 4)), name)
    text = told(tmp_path, net, 3, tags="" if by_name else "tags: {hp: [conv2]}\n")
    assert text.startswith("1 rule of the NNIE is broken:\n")
    assert (
        f"  {name} (Convolution): `_hp` may only stand on a layer with compile_mode 2; found compile_mode 0\n" in text
    )
    assert "fix: write compile_mode: 2, or take `_hp` off (the layer's name, or the recipe's tags.hp)" in text
    assert "outside_limits" not in text  # the CPU is no way out


def test_hp_in_the_target_with_compile_mode_0_is_a_mistake_of_the_recipe(tmp_path: Path) -> None:
    text = told(tmp_path, plain(), 2, options=", tags: {hp: [conv2]}")
    assert "recipe.yaml:11:" in text
    assert "tags.hp has no effect with compile_mode: 0" in text
    assert "fix: write compile_mode: 2, or remove tags.hp" in text


def test_cpu_on_what_reads_the_data(tmp_path: Path) -> None:
    net = CaffeNet()
    net.conv(net.conv("data", "conv1_cpu", channels=(3, 4)), "conv2")
    text = told(tmp_path, net, 3)
    assert text.startswith("1 rule of the NNIE is broken:\n")  # that there is no NNIE before it is not told twice
    assert "conv1_cpu (Convolution): a `_cpu` layer cannot follow the data layer" in text
    assert "take `_cpu` off and name the layer in the option `custom`" in text


def test_cpu_on_the_data_itself(tmp_path: Path) -> None:
    net = CaffeNet("data_cpu")
    net.conv("data_cpu", "conv1", channels=(3, 4))
    text = told(tmp_path, net, 3)
    assert "data_cpu (data): `_cpu` cannot stand on the data layer\n    fix: take the tag off the input" in text


def test_a_tag_of_the_recipe_on_the_data(tmp_path: Path) -> None:
    text = told(tmp_path, plain(), 2, tags="tags: {cpu: [data]}\n")
    assert "recipe.yaml:10:14: tags.cpu: 'data' is an input of the network, and tags are for layers" in text
    assert "fix: name the layers that the CPU is to run" in text


def test_upsample_after_a_cpu_layer(tmp_path: Path) -> None:
    net = CaffeNet()
    x = net.add("Power", "power_param { power: 2 }", net.conv("data", "conv1", channels=(3, 4)), "square_cpu")
    net.conv(net.add("Upsample", "upsample_param { scale: 2 }", x, "up"), "conv2")
    text = told(tmp_path, net, 3)
    assert (
        "  up (Upsample): an Upsample layer cannot follow a `_cpu` layer; found it behind square_cpu (Power)\n"
        in text
    )
    assert "fix: run the Upsample on the CPU too, or take `_cpu` off the layer before" in text


def test_a_permute_order_that_the_nnie_lacks(tmp_path: Path) -> None:
    net = CaffeNet()
    order = "permute_param { order: 0 order: 3 order: 1 order: 2 }"
    net.add("Permute", order, net.conv("data", "conv1", channels=(3, 4)), "perm")
    text = told(tmp_path, net, 3)
    assert text.startswith("1 limit of the NNIE is exceeded:\n")
    assert "  perm (Permute): Permute can only support (0,1,2,3) -> (0,2,3,1) order; found (0,3,1,2)\n" in text
    assert "rearrange with that order and Reshape" in text
    assert "`outside_limits: custom`" in text


def test_a_concat_of_33(tmp_path: Path) -> None:
    net = CaffeNet()
    tops = [net.conv("data", f"conv{i}", channels=(3, 1)) for i in range(33)]
    net.add("Concat", "concat_param { axis: 1 }", " ".join(tops), "cat")
    text = told(tmp_path, net, 3)
    assert "  cat (Concat): a Concat takes at most 32 inputs; found 33\n    fix: concatenate in two steps\n" in text


def test_several_mistakes_come_at_once_and_what_they_share_is_said_once(tmp_path: Path) -> None:
    net = CaffeNet()
    x, order = net.conv("data", "conv1_hp", channels=(3, 4)), "permute_param { order: 0 order: 3 order: 1 order: 2 }"
    net.add("Permute", order, x, "first")
    net.add("Permute", order, x, "second")
    text = told(tmp_path, net, 3)
    assert text.startswith("3 limits of the NNIE are exceeded:\n")
    assert "  first (Permute), second (Permute):\n    Permute can only support" in text
    assert text.count("Permute can only support") == 1
    assert text.count("; found (0,3,1,2)\n") == 1
    assert "conv1_hp (Convolution): `_hp` may only stand" in text
    assert "let the CPU run what exceeds a limit of a layer" in text


def test_an_input_that_is_normalised_twice_is_told_at_the_end_of_the_run(tmp_path: Path) -> None:
    """By the chip, as the recipe says, and by the network's first layer."""
    net = CaffeNet()
    net.conv(net.add("Power", "power_param { shift: -128 scale: 0.01 }", "data", "centred"), "conv", channels=(3, 4))
    net.write(tmp_path, "restructure: []\n", ", precision_table: false")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("{color: bgr}", "{color: bgr, mean: 128, scale: 0.01}"))
    done = run_nnkit("run", str(recipe), "--out", str(tmp_path / "out"), "--no-cache")
    assert done.returncode == 0, done.stderr
    assert "  note     input data may be normalised twice: by the chip (norm_type 5) and by" in done.stdout

"""Small networks of which the tests of 16-bit layers choose, and inputs for them."""

from __future__ import annotations

import numpy as np
from nnie_networks import Net

from nnkit.graph import Model
from nnkit.program import Float
from nnkit.samples import Sample
from nnkit_nnie.limits.context import Division
from nnkit_nnie.lowered import NnieLowered

FORMATS = {"data": Float(32)}


def descriptor() -> Model:
    net = Net(2)
    x = net.node("Relu", [net.conv(net.input("data", 3, 16, 16), (3, 8), "conv1", strides=[2, 2])], "relu1")
    x = net.node("Relu", [net.conv(x, (8, 16), "conv2", strides=[2, 2])], "relu2")
    x = net.node("Relu", [net.conv(x, (16, 32), "comp_fc", kernel=4, pad=0)], "relu3")
    return net.model(net.fc(net.node("Flatten", [x], "flat"), (32, 8), "pca"))


def samples(count: int = 4) -> list[Sample]:
    random = np.random.default_rng(0)
    return [Sample(f"{i}", {"data": random.normal(size=(1, 3, 16, 16)).astype(np.float32)}) for i in range(count)]


def lowered(model: Model, compile_mode: int) -> NnieLowered:
    return NnieLowered.of(model, Division("hi3516cv500", compile_mode=compile_mode))


def pixels_first() -> Model:
    """Raw pixels around 200, which a layer of its own takes off; 8 bits read such pixels in steps of 8."""
    net = Net(3)
    mean, scale = (net.constant(f"of_{value}", np.full((1, 1, 1, 1), value)) for value in (200, 0.05))
    x = net.node("Mul", [net.node("Sub", [net.input("data", 1, 16, 16), mean], "center"), scale], "scale")
    x = net.node("Relu", [net.conv(x, (1, 8), "conv1", strides=[2, 2])], "relu1")
    x = net.node("Relu", [net.conv(x, (8, 8), "conv2", strides=[2, 2])], "relu2")
    return net.model(net.fc(net.node("Flatten", [x], "flat"), (128, 8), "pca"))


def pixel_samples() -> list[Sample]:
    random = np.random.default_rng(1)
    return [Sample(f"{i}", {"data": random.integers(180, 221, (1, 1, 16, 16)).astype(np.float32)}) for i in range(4)]

"""Networks of a few layers behind a convolution, and what the NNIE's division says of those that it refuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from nnie_networks import Net

from nnkit.errors import ModelError
from nnkit.graph import Model
from nnkit_nnie.limits.context import Division
from nnkit_nnie.segments import divide

CV500 = Division("hi3516cv500")
Build = Callable[[Net, str], str]
"""Adds layers that read a [1, 8, 16, 16] value; returns the last."""


def network(build: Build) -> Model:
    net = Net()
    stem = net.conv(net.input("data", 3, 16, 16), (3, 8), "stem")
    return net.model(build(net, stem))


def refusal(model: Model, division: Division = CV500) -> str:
    with pytest.raises(ModelError) as caught:
        divide(model, division)
    return str(caught.value)


def upsampled(factor: int, mode: str = "nearest", nearest_mode: str = "floor") -> Build:
    return lambda net, x: net.node(
        "Resize",
        [x, "", net.constant("s", [1, 1, factor, factor])],
        "up",
        mode=mode,
        coordinate_transformation_mode="asymmetric",
        nearest_mode=nearest_mode,
    )

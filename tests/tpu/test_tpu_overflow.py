"""Values beyond what 16 bits hold: infinite in the simulation, as on the chip, and nothing on the terminal."""

from __future__ import annotations

import warnings

import numpy as np
from tpu_net import Net

from nnkit.simulate import simulate
from nnkit_tpu.lowering import lower
from nnkit_tpu.quantize import Precision, to_program


def test_what_overflows_is_infinite_and_told_by_no_warning() -> None:
    net = Net()
    net("Softmax", net("Exp", "x", to="large"), axis=1, to="y")
    program = to_program(lower(net.model(["large", "y"]), "net"), {}, Precision("bm1684x", "F16"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values = simulate(program, {"x": np.full((8, 12, 10), 20.0, np.float32)})
    assert np.isinf(values["large"]).all()
    assert np.isnan(values["y"]).all(), "infinity less infinity"

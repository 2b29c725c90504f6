"""The tables of Sigmoid and TanH against those in files of the vendor's mapper, and what is read from them."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import onnx
import pytest
from nnie_networks import Net

from nnkit.calibrate import calibrate
from nnkit.program import Float
from nnkit.program.inputs import quantized_inputs
from nnkit.samples import Sample
from nnkit.simulate import simulate
from nnkit_nnie.gfpq.activation_tables import sigmoid, sigmoid_table, tanh, tanh_table
from nnkit_nnie.gfpq.quantize import Precision, to_program
from nnkit_nnie.limits.context import Division
from nnkit_nnie.segments import divide
from nnkit_nnie.wk.header import read_wk

FILES = ("retinaface_mnet/mnet_mergebn_640L_inst.wk", "enet_cityscapes/inst_mnist_cycle.wk")
_OFFSETS_AT = (112, 128)  # in the header: where in the body the two tables begin


@pytest.mark.parametrize("name", FILES)
def test_every_entry_is_that_of_the_vendors_files(name: str, shared_dir: Path) -> None:
    wk = read_wk(shared_dir / "models" / name)
    for at, ours in zip(_OFFSETS_AT, (sigmoid_table(), tanh_table()), strict=True):
        (offset,) = struct.unpack_from("<I", wk.data, at)
        theirs = np.frombuffer(wk.data, "<i2", 512, wk.head_bytes + offset)
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize(("ours", "exact"), [(sigmoid, lambda x: 1 / (1 + np.exp(-x))), (tanh, np.tanh)])
def test_between_entries(ours, exact) -> None:
    """A straight line over a step h is off by at most h^2 / 8 of the second derivative (< 0.8); entries by 2^-15."""
    x = np.random.default_rng(0).uniform(-20.0, 20.0, 4000)
    assert np.abs(ours(x) - exact(x)).max() <= 0.8 / 16**2 / 8 + 2.0**-15
    assert ours(np.asarray([-1e6, 1e6])).tolist() == [ours(np.asarray(-15.9999)), 32767 / 32768]


@pytest.mark.parametrize(("op", "table"), [("Sigmoid", sigmoid), ("Tanh", tanh)])
@pytest.mark.parametrize("in_place", [True, False])
def test_layers_read_the_tables(op: str, table, in_place: bool) -> None:
    """Behind a convolution in place, or as a layer behind one that others read too."""
    net = Net(1)
    x = net.conv(net.input("data", 2, 6, 6), (2, 3), "conv")
    y = net.node(op, [x], "act")
    if not in_place:
        y = net.node("Add", [y, net.conv(x, (3, 3), "other")], "sum")
    model = net.model(y)
    sample = {"data": np.random.default_rng(2).normal(0.0, 3.0, (1, 2, 6, 6)).astype(np.float32)}
    network = divide(model, Division("hi3516cv500"))
    program = to_program(
        network, calibrate(model, {"data": [sample["data"]]}, {}), Precision(1, frozenset()), name="t",
        inputs={"data": Float(32)},
    )  # fmt: skip
    stored = simulate(program, quantized_inputs(program, Sample("s", sample)))
    op_of = program.producer("act")
    assert op_of is not None
    if in_place:
        real = onnx.numpy_helper.to_array(net.constants[0])
        assert real.size
        assert len(op_of.activations) == 1  # type: ignore[attr-defined]
        alone = type(op_of)(**{**op_of.__dict__, "activations": ()}).compute([stored["data"]], program.tensors)
        before = alone / 4096.0
    else:
        before = op_of.read_as[0].through(stored["conv"] / 4096.0)  # type: ignore[attr-defined]
    assert np.array_equal(stored["act"], np.floor(table(before) * 4096.0 + 0.5))

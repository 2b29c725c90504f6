"""Rows of a table by their numbers: those that ONNX Runtime gives, each rounded once, and how many there may be."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from nnkit.errors import ModelError
from nnkit.graph import Model
from nnkit.program import Embedding
from nnkit.quantize import FixedPointScheme, quantize
from nnkit.quantize.lowering import lower
from nnkit.simulate import simulate
from tests.quantize.conftest import float_values, make_model, stats_of

ROWS, FEATURES = 300, 5


def _table(rows: int) -> Model:
    table = np.random.default_rng(7).normal(size=(rows, FEATURES)).astype(np.float32)
    nodes = [
        helper.make_node("Clip", ["ids", "first", "last"], ["kept"], name="clip"),
        helper.make_node("Cast", ["kept"], ["whole"], name="cast", to=TensorProto.INT64),
        helper.make_node("Gather", ["table", "whole"], ["y"], name="rows", axis=0),
    ]
    bounds = {"first": np.float32(0), "last": np.float32(rows - 1)}
    return make_model(nodes, {"table": table, **bounds}, {"ids": (1, 4)}, ["y"])


@pytest.mark.parametrize("bits", [8, 16])
def test_rows_are_those_of_the_table_by_numbers_that_stay_as_they_are(bits: int) -> None:
    """Numbers have 16 bits even in a network of 8: they are 0 to 299. One beyond the table takes the nearest row."""
    model = _table(ROWS)
    feeds = {"ids": np.array([[0, 299, 128, 1000]], np.float32)}
    values = float_values(model, feeds)
    program = quantize(lower(model), stats_of(values), FixedPointScheme(bits=bits, headroom=1.0))
    (op,) = program.ops
    assert isinstance(op, Embedding)
    ids, output = program.tensors["ids"].fixed, program.tensors["y"].fixed
    assert (ids.bits, ids.frac) == (16, 0)
    stored = simulate(program, {"ids": feeds["ids"][0].astype(np.int64)})["y"]
    assert np.abs(stored * 2.0**-output.frac - values["y"][0]).max() <= 2.0 ** -(output.frac + 1)


@pytest.mark.parametrize("rows", [32768, 32769])
def test_a_number_that_sixteen_bits_do_not_hold_is_refused(rows: int) -> None:
    model = _table(rows)
    stats = stats_of(float_values(model, {"ids": np.array([[0, 1, 2, rows - 1]], np.float32)}))
    if rows == 32768:
        quantize(lower(model), stats, FixedPointScheme(bits=16))
        return
    with pytest.raises(ModelError, match=r"the numbers of its 32,769 rows") as caught:
        quantize(lower(model), stats, FixedPointScheme(bits=16))
    assert caught.value.remedy == "give the numbers as an input of the network, to tables of at most 32,768 rows"

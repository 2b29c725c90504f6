"""A Program as a whole: sent to another process it is the same, and stays read-only."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from program_builder import ProgramBuilder


def test_a_program_sent_to_another_process_is_the_same_and_read_only() -> None:
    net = ProgramBuilder()
    program = net.build(net.conv(net.input(2, 4, 4), 3, name="conv"))
    copy = pickle.loads(pickle.dumps(program))
    assert copy is not program
    assert copy.digest == program.digest
    for field in ("name", "inputs", "outputs", "numerics", "notes", "tensors"):
        assert getattr(copy, field) == getattr(program, field)
    np.testing.assert_array_equal(copy.ops[0].bias, program.ops[0].bias)
    with pytest.raises(TypeError):
        copy.tensors["more"] = copy.tensors["conv_v"]
    with pytest.raises(ValueError, match="read-only"):
        copy.ops[0].bias[0] = 1

"""What the C project says of a layer, and which plans it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnkit.c.fixed.machine import CoreMachine
from nnkit.errors import InternalError
from nnkit.program import Tensor, Window
from nnkit_gap8.emit import emit_artifact
from tests.c.fixed.one_conv import conv_op, program_of
from tests.c.fixed.programs import S8
from tests.gap8.plans import L1_BYTES, naive_plan

MACHINE = CoreMachine(8, L1_BYTES)


def test_a_cpu_layer_runs_on_the_calling_core() -> None:
    op = conv_op(np.ones((4, 2, 1, 1), np.int64), Window(1, 1), placement="cpu")
    program = program_of(op, (2, 4, 4), (4, 4, 4))
    source = emit_artifact(program, naive_plan(program, 8), MACHINE)["net.c"].decode()
    assert "NNKIT_RUN_CPU(context, net_conv_direct_s16_s16_s16, &task);" in source
    assert "NNKIT_RUN(" not in source


def test_a_plan_of_another_program_is_refused() -> None:
    op = conv_op(np.ones((4, 2, 3, 3), np.int64), Window(3, 3))
    program = program_of(op, (2, 6, 6), (4, 4, 4))
    with pytest.raises(InternalError, match="scratch"):
        emit_artifact(program, naive_plan(program, 1), MACHINE)
    renamed = replace(program, tensors={**program.tensors, "z": Tensor("z", (1,), S8, 0, 1)})
    with pytest.raises(InternalError, match="no place"):
        emit_artifact(renamed, naive_plan(program, 8), MACHINE)

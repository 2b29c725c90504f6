"""Frama-C proves the kernels of a small layer, and sees each kind of mistake that is put into them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from fuzz.proofs import __main__ as command
from fuzz.proofs.eva import COMMAND, interpret
from fuzz.proofs.small_ops import small_programs
from nnkit.program import Program, Window
from tests.c.fixed.one_conv import conv_op, program_of

needs_frama_c = pytest.mark.skipif(shutil.which(COMMAND) is None, reason="no frama-c")


SAME = Window(3, 3, 1, 1, 1, 1, 1, 1, 1, 1)


def convolution(side: int, window: Window = SAME, channels: int = 2, outputs: int = 5) -> Program:
    """3x3, with random weights."""
    weight = np.random.default_rng(0).integers(-300, 300, (outputs, channels, 3, 3)).astype(np.int16)
    return program_of(conv_op(weight, window), (channels, side, side), (outputs, *window.output_hw(side, side)))


def only_small(program: Program) -> Program:
    ((_, small),) = small_programs(program)
    assert small is not None
    return small


@needs_frama_c
def test_a_convolution_is_proven_for_any_weights(tmp_path: Path) -> None:
    assert command.proof(only_small(convolution(5)), tmp_path) == {"status": "proven", "weights": "any", "alarms": []}


@needs_frama_c
@pytest.mark.parametrize(
    ("right", "wrong", "alarm"),
    [
        ("y < 0 || y >= layer->in_h", "y < 0 || y > layer->in_h", "out of bounds read"),
        ("if (v > high) v = high;", "", "signed downcast"),
        ("a00 >> shift", "a00 >> (shift + 32)", "invalid RHS operand for shift"),
        ("w * x0", "w * x0 * 300", "signed overflow"),
        ("out[0] = (nnkit_i16)v;", "out[-1] = (nnkit_i16)v;", "out of bounds write"),
    ],
)
def test_a_mistake_in_a_kernel_is_an_alarm(tmp_path: Path, right: str, wrong: str, alarm: str) -> None:
    sources = command.write_sources(only_small(convolution(5)), tmp_path)
    kernels = tmp_path / "net_conv.c"
    text = kernels.read_text()
    assert right in text
    kernels.write_text(text.replace(right, wrong))
    verdict = interpret(tmp_path, sources, ["PARTS=1"])
    assert any(alarm in text for text in verdict.alarms), verdict


def test_a_layer_is_made_smaller_with_what_decides_its_kernel() -> None:
    window = Window(3, 3, 2, 2, pad_top=1, pad_left=1)
    small = only_small(convolution(32, window, channels=24, outputs=40))
    (op,) = small.ops
    # Five outputs of 3 taps in steps of 2 read 11 columns; 32 is even, so 12 are kept, of which the last is not read.
    assert [tensor.shape for tensor in small.tensors.values()] == [(2, 12, 12), (5, 6, 6)]
    assert op.weight.shape == (5, 2, 3, 3)
    assert op.window == window


def test_without_frama_c_nothing_is_proven(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert command.main(["no_such_build"]) == 5
    assert "not run: no frama-c" in capsys.readouterr().err

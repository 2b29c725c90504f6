"""Frama-C and CBMC prove the kernels of a small layer, and see each kind of mistake that is put into them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from fuzz.proofs import __main__ as command
from fuzz.proofs import cbmc
from fuzz.proofs.eva import COMMAND, interpret
from fuzz.proofs.small_ops import LEAST, small_programs, smaller
from nnkit.program import Program, Window
from tests.c.fixed.one_conv import conv_op, program_of

needs_frama_c = pytest.mark.skipif(shutil.which(COMMAND) is None, reason="no frama-c")
needs_cbmc = pytest.mark.skipif(
    shutil.which(cbmc.COMMAND) is None, reason="CI cannot install it: cbmc is in Debian 13, not in Debian 12"
)

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


def least(program: Program) -> Program:
    made = smaller(program.ops[0], program, LEAST)
    assert made is not None
    return made


@needs_cbmc
def test_cbmc_decides_a_convolution_for_any_weights(tmp_path: Path) -> None:
    row = command.decision(only_small(convolution(5)), least(convolution(5)), tmp_path)
    assert row.pop("checks") > 3000
    assert row == {"status": "proven", "weights": "any", "alarms": []}


@needs_cbmc
@pytest.mark.parametrize(
    ("right", "wrong", "alarm"),
    [
        ("y < 0 || y >= layer->in_h", "y < 0 || y > layer->in_h", "pointer outside object bounds"),
        ("a00 >> shift", "a00 >> (shift + 32)", "shift distance too large"),
        ("w * x0", "w * x0 * 300", "arithmetic overflow on signed *"),
        ("out[0] = (nnkit_i16)v;", "out[-1] = (nnkit_i16)v;", "pointer outside object bounds"),
    ],
)
def test_cbmc_sees_a_mistake_in_a_kernel(tmp_path: Path, right: str, wrong: str, alarm: str) -> None:
    overflow = "overflow" in alarm
    program = least(convolution(5)) if overflow else only_small(convolution(5))
    sources = command.write_sources(program, tmp_path)
    kernels = tmp_path / "net_conv.c"
    text = kernels.read_text()
    assert right in text
    kernels.write_text(text.replace(right, wrong))
    verdict, _ = cbmc.check(tmp_path, sources, ["PARTS=1"], overflow=overflow)
    assert any(alarm in text for text in verdict.alarms), verdict


def test_the_least_layer_has_one_row_of_outputs() -> None:
    assert [tensor.shape for tensor in least(convolution(32)).tensors.values()] == [(1, 1, 5), (1, 1, 5)]


def test_a_layer_is_made_smaller_with_what_decides_its_kernel() -> None:
    window = Window(3, 3, 2, 2, pad_top=1, pad_left=1)
    small = only_small(convolution(32, window, channels=24, outputs=40))
    (op,) = small.ops
    # Five outputs of 3 taps in steps of 2 read 11 columns; 32 is even, so 12 are kept, of which the last is not read.
    assert [tensor.shape for tensor in small.tensors.values()] == [(2, 12, 12), (5, 6, 6)]
    assert op.weight.shape == (5, 2, 3, 3)
    assert op.window == window


@pytest.mark.parametrize(("by", "program"), [("eva", "frama-c"), ("cbmc", "cbmc")])
def test_without_its_prover_nothing_is_proven(
    by: str, program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert command.main(["no_such_build", "--by", by]) == 5
    assert f"not run: no {program}" in capsys.readouterr().err

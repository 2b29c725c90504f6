"""Weight blocks byte by byte, kernel choice and scratch, on examples worked by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnkit.errors import InternalError
from nnkit.program import Conv2d, Convolution, Leaky, OutputStage, Program, Tensor, Window
from nnkit_gap8.emit import emit_artifact
from nnkit_gap8.kernels import conv_kernel, kernel_needs
from nnkit_gap8.pack import pack_weights
from nnkit_gap8.phases import output_phases
from tests.gap8.programs import S8, S16, naive_plan


def conv_op(weight: np.ndarray, window: Window, **fields: object) -> Conv2d:
    channels = weight.shape[0]
    base = Conv2d(
        name="c",
        inputs=("x",),
        output="y",
        weight=weight,
        weight_bits=16,
        weight_frac=0,
        bias=np.arange(1, channels + 1, dtype=np.int32),
        bias_frac=0,
        bias_shift=3,
        window=window,
        stage=OutputStage(5, -32768, 32767),
    )
    return replace(base, **fields)  # type: ignore[arg-type]


def program_of(op: Convolution, in_shape: tuple[int, ...], out_shape: tuple[int, ...]) -> Program:
    tensors = {
        "x": Tensor("x", in_shape, S16, S16.qmin, S16.qmax),
        "y": Tensor("y", out_shape, S16, S16.qmin, S16.qmax),
    }
    return Program("net", tensors, (op,), ("x",), ("y",))


def test_a_block_holds_starts_then_taps_of_four_channels() -> None:
    weight = np.array([[10, 11], [20, 21], [30, 31], [40, 41], [50, 51]]).reshape(5, 2, 1, 1)
    first, second = pack_weights(conv_op(weight, Window(1, 1)))
    # bias << 3, plus the rounding constant 2^4 of shift 5
    assert np.frombuffer(first[:16], "<i4").tolist() == [24, 32, 40, 48]
    assert np.frombuffer(first[16:], "<i2").tolist() == [10, 20, 30, 40, 11, 21, 31, 41]
    assert np.frombuffer(second[:16], "<i4").tolist() == [56, 0, 0, 0]
    assert np.frombuffer(second[16:], "<i2").tolist() == [50, 0, 0, 0, 51, 0, 0, 0]


def test_running_starts_from_the_bias_but_depthwise_is_wide() -> None:
    op = conv_op(np.ones((2, 3, 1, 1), np.int64), Window(1, 1), accumulate="running")
    assert np.frombuffer(pack_weights(op)[0][:16], "<i4").tolist() == [1, 2, 0, 0]
    # One input channel: v = (bias << 5) + sum + 2^4 >> 5 is `wide` with the bias shifted by 5.
    op = conv_op(np.ones((2, 1, 1, 1), np.int64), Window(1, 1), accumulate="running", groups=2)
    assert np.frombuffer(pack_weights(op)[0][:16], "<i4").tolist() == [48, 80, 0, 0]


def test_slopes_int8_weights_and_64_bit_starts() -> None:
    stage = OutputStage(5, -32768, 32767, Leaky(np.array([7, -8], np.int16), 10))
    op = conv_op(np.array([1, -2]).reshape(2, 1, 1, 1), Window(1, 1), stage=stage, weight_bits=8, accumulator="int64")
    (block,) = pack_weights(op)
    assert np.frombuffer(block[:32], "<i8").tolist() == [24, 32, 0, 0]
    assert np.frombuffer(block[32:40], "<i2").tolist() == [7, -8, 0, 0]
    assert np.frombuffer(block[40:], "<i1").tolist() == [1, -2, 0, 0]


def test_groups_do_not_share_blocks() -> None:
    weight = np.arange(6).reshape(6, 1, 1, 1)
    blocks = pack_weights(conv_op(weight, Window(1, 1), groups=2))  # 2 groups of 3 channels
    assert [np.frombuffer(block[16:], "<i2").tolist() for block in blocks] == [[0, 1, 2, 0], [3, 4, 5, 0]]


def test_weights_beyond_their_bits_are_refused() -> None:
    with pytest.raises(InternalError, match="do not fit 8 bits"):
        pack_weights(conv_op(np.full((1, 1, 1, 1), 128), Window(1, 1), weight_bits=8))


def test_every_tap_of_a_transposed_convolution_belongs_to_one_phase() -> None:
    window = Window(4, 3, 2, 3, 1, 2, 1, 0)
    seen = []
    for phase in output_phases(window):
        for tap_y in phase.taps_y:
            for tap_x in phase.taps_x:
                seen.append((tap_y.index, tap_x.index))
                # o = i * stride - pad + k * dilation, at the phase's first output row (o = phase)
                assert tap_y.delta * 2 - 1 + tap_y.index == phase.y
                assert tap_x.delta * 3 + tap_x.index * 2 == phase.x
    assert sorted(seen) == [(ky, kx) for ky in range(4) for kx in range(3)]


@pytest.mark.parametrize(
    ("window", "in_shape", "path"),
    [
        (Window(1, 1), (8, 6, 6), "direct"),
        (Window(6, 6), (8, 6, 6), "direct"),
        (Window(1, 1, 2, 2), (8, 6, 6), "rows"),
        (Window(1, 1, 1, 1, 1, 1, 1, 1, 1, 1), (8, 6, 6), "rows"),
        (Window(3, 3), (8, 6, 6), "rows"),
    ],
)
def test_paths(window: Window, in_shape: tuple[int, int, int], path: str) -> None:
    out_hw = window.output_hw(*in_shape[1:])
    op = conv_op(np.zeros((4, in_shape[0], window.kernel_h, window.kernel_w), np.int64), window)
    kernel = conv_kernel(op, program_of(op, in_shape, (4, *out_hw)), 8)
    assert kernel.path == path
    assert (kernel.scratch_bytes == 0) == (path == "direct")


def test_gathering_needs_four_pixels_for_each_core() -> None:
    op = conv_op(np.zeros((256, 64, 3, 3), np.int64), Window(3, 3, 1, 1, 1, 1, 1, 1, 1, 1))
    program = program_of(op, (64, 7, 7), (256, 7, 7))
    needs = kernel_needs(op, program, 8)
    assert needs.scratch_bytes == (("l1", 8 * 576 * 4 * 2),)  # cores, taps, pixels, bytes
    assert needs.weight_block_bytes == (16 + 576 * 4 * 2,) * 64
    assert needs.repacks_input
    # Half the L1: only 7 cores' pixels fit.
    assert conv_kernel(op, program, 8, 32 << 10).max_parts == 7


def test_a_depthwise_band_is_cut_where_l1_is_small() -> None:
    op = conv_op(np.zeros((8, 1, 3, 3), np.int64), Window(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), groups=8)
    program = program_of(op, (8, 112, 112), (8, 112, 112))
    kernel = conv_kernel(op, program, 8)
    # Rows of 112 + 2 elements; 8 KiB a core hold 35 of them, so 33 output rows.
    assert (kernel.band_width, kernel.band_rows) == (114, 33)
    assert kernel.scratch_bytes <= 64 << 10
    one = conv_kernel(op, program, 1)
    assert one.band_rows == 112


def test_a_cpu_layer_runs_on_the_calling_core() -> None:
    op = conv_op(np.ones((4, 2, 1, 1), np.int64), Window(1, 1), placement="cpu")
    program = program_of(op, (2, 4, 4), (4, 4, 4))
    source = emit_artifact(program, naive_plan(program, 8), cores=8)["net.c"].decode()
    assert "NNKIT_RUN_CPU(context, net_conv_direct_s16_s16_s16, &task);" in source
    assert "NNKIT_RUN(" not in source


def test_a_plan_of_another_program_is_refused() -> None:
    op = conv_op(np.ones((4, 2, 3, 3), np.int64), Window(3, 3))
    program = program_of(op, (2, 6, 6), (4, 4, 4))
    with pytest.raises(InternalError, match="scratch"):
        emit_artifact(program, naive_plan(program, 1), cores=8)
    renamed = replace(program, tensors={**program.tensors, "z": Tensor("z", (1,), S8, 0, 1)})
    with pytest.raises(InternalError, match="no place"):
        emit_artifact(renamed, naive_plan(program, 8), cores=8)

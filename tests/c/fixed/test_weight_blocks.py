"""Weight blocks byte by byte, on examples worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from nnkit.c.fixed.conv2d import Conv2dC
from nnkit.errors import InternalError
from nnkit.program import Leaky, OutputStage, Window
from tests.c.fixed.one_conv import conv_op

blocks_of = Conv2dC().weight_blocks


def test_a_block_holds_starts_then_taps_of_four_channels() -> None:
    weight = np.array([[10, 11], [20, 21], [30, 31], [40, 41], [50, 51]]).reshape(5, 2, 1, 1)
    first, second = blocks_of(conv_op(weight, Window(1, 1)))
    # bias << 3, plus the rounding constant 2^4 of shift 5
    assert np.frombuffer(first[:16], "<i4").tolist() == [24, 32, 40, 48]
    assert np.frombuffer(first[16:], "<i2").tolist() == [10, 20, 30, 40, 11, 21, 31, 41]
    assert np.frombuffer(second[:16], "<i4").tolist() == [56, 0, 0, 0]
    assert np.frombuffer(second[16:], "<i2").tolist() == [50, 0, 0, 0, 51, 0, 0, 0]


def test_running_starts_from_the_bias_but_depthwise_is_wide() -> None:
    op = conv_op(np.ones((2, 3, 1, 1), np.int64), Window(1, 1), accumulate="running")
    assert np.frombuffer(blocks_of(op)[0][:16], "<i4").tolist() == [1, 2, 0, 0]
    # One input channel: v = (bias << 5) + sum + 2^4 >> 5 is `wide` with the bias shifted by 5.
    op = conv_op(np.ones((2, 1, 1, 1), np.int64), Window(1, 1), accumulate="running", groups=2)
    assert np.frombuffer(blocks_of(op)[0][:16], "<i4").tolist() == [48, 80, 0, 0]


def test_slopes_int8_weights_and_64_bit_starts() -> None:
    stage = OutputStage(5, -32768, 32767, Leaky(np.array([7, -8], np.int16), 10))
    op = conv_op(np.array([1, -2]).reshape(2, 1, 1, 1), Window(1, 1), stage=stage, weight_bits=8, accumulator="int64")
    (block,) = blocks_of(op)
    assert np.frombuffer(block[:32], "<i8").tolist() == [24, 32, 0, 0]
    assert np.frombuffer(block[32:40], "<i2").tolist() == [7, -8, 0, 0]
    assert np.frombuffer(block[40:], "<i1").tolist() == [1, -2, 0, 0]


def test_groups_do_not_share_blocks() -> None:
    weight = np.arange(6).reshape(6, 1, 1, 1)
    blocks = blocks_of(conv_op(weight, Window(1, 1), groups=2))  # 2 groups of 3 channels
    assert [np.frombuffer(block[16:], "<i2").tolist() for block in blocks] == [[0, 1, 2, 0], [3, 4, 5, 0]]


def test_weights_beyond_their_bits_are_refused() -> None:
    with pytest.raises(InternalError, match="do not fit 8 bits"):
        blocks_of(conv_op(np.full((1, 1, 1, 1), 128), Window(1, 1), weight_bits=8))

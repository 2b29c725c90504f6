"""Constant weights in the order in which the kernels of convolutions read them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nnkit.c.float.calls import Call, Read, Struct, Table, Write, struct

LANES = 8  # NNKIT_LANES of nnkit_vector.h
UNBOUNDED = struct("nnkit_clip", "-nnkit_infinity", "nnkit_infinity")


def packed_call(
    source: Read, result: str, weights: NDArray[np.float32], bias: NDArray[np.float32] | None, window: Struct
) -> Call:
    """A convolution, or a product with a matrix as one of a single pixel.

    weights: [groups, maps, channels, rows, columns], of a group. bias: [groups * maps].
    """
    arguments = (source, Table(packed_weights(weights, bias)), Write(result), window, UNBOUNDED)
    return Call("conv_packed", "nnkit_conv_packed", arguments, clip=4)


def packed_weights(weights: NDArray[np.float32], bias: NDArray[np.float32] | None) -> NDArray[np.float32]:
    """For each group blocks of LANES maps, zeros beyond the last: biases, then [rows, columns, channels, LANES]."""
    groups, maps = weights.shape[:2]
    blocks = -(-maps // LANES)
    padded = np.zeros((groups, blocks * LANES, *weights.shape[2:]), np.float32)
    padded[:, :maps] = weights
    biases = np.zeros((groups, blocks * LANES), np.float32)
    if bias is not None:
        biases[:, :maps] = bias.reshape(groups, maps)
    by_tap = padded.reshape(groups, blocks, LANES, *weights.shape[2:]).transpose(0, 1, 4, 5, 3, 2)
    parts = (biases.reshape(groups, blocks, LANES), by_tap.reshape(groups, blocks, -1))
    return np.ascontiguousarray(np.concatenate(parts, axis=2))


def depthwise_weights(weights: NDArray[np.float32], bias: NDArray[np.float32] | None) -> NDArray[np.float32]:
    """[channels, 1 + taps]: a channel's bias and its weights. weights: [channels, 1, rows, columns]."""
    channels = weights.shape[0]
    first = np.zeros((channels, 1), np.float32) if bias is None else bias.reshape(channels, 1)
    return np.concatenate((first, weights.reshape(channels, -1)), axis=1, dtype=np.float32)

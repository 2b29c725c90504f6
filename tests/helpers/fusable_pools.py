"""Poolings that fuse into the convolution before them: operator and attributes by name."""

from __future__ import annotations

from typing import Any

POOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "max": ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "max with ceil_mode": ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    "average": ("AveragePool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "average, padding counted": (
        "AveragePool",
        {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1, 1, 1, 1], "count_include_pad": 1},
    ),
}

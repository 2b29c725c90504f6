"""Caffe networks in OpenCV: the independent reader and runtime of the Caffe tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray


def run_opencv(
    prototxt: bytes, caffemodel: bytes, feeds: Mapping[str, NDArray[Any]], outputs: Mapping[str, str]
) -> dict[str, NDArray[np.float32]]:
    """Outputs by blob name. outputs: the layer that makes each blob; OpenCV calls a last layer by its blob."""
    text = np.frombuffer(prototxt, np.uint8)
    net = cv2.dnn.readNetFromCaffe(text, np.frombuffer(caffemodel, np.uint8)) if caffemodel else None
    net = cv2.dnn.readNetFromCaffe(text) if net is None else net
    for name, array in feeds.items():
        net.setInput(array, name)
    known = set(net.getLayerNames())
    found = {}
    for blob, layer in outputs.items():
        wanted = next(name for name in (blob, layer) if name in known)
        found[blob] = np.array(net.forward(wanted))
    return found


def relative_error(found: NDArray[Any], expected: NDArray[Any]) -> float:
    """Largest difference over the largest magnitude expected. Only the order counts: OpenCV drops dimensions of 1."""
    assert found.size == expected.size, (found.shape, expected.shape)
    scale = float(np.abs(expected).max()) or 1.0
    return float(np.abs(found.reshape(-1) - expected.reshape(-1)).max()) / scale

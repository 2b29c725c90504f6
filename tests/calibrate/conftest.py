"""The small network and its pictures."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from calibration_network import RNG, SHAPE, convolutions

from nnkit.graph import Model


@pytest.fixture(scope="module")
def model() -> Model:
    return convolutions()


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("pictures")
    paths = [folder / f"{index}.png" for index in range(12)]
    for path in paths:
        cv2.imwrite(str(path), RNG.integers(0, 256, SHAPE[2:], dtype=np.uint8))
    return paths

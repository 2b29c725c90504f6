"""One set of network inputs: what calibrations, checks and verifications run on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NetworkInputs: TypeAlias = "Mapping[str, NDArray[np.float32]]"
"""A value for every input by its name, in real units, with batch 1."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Inputs of a network, and where they are from: `source` for messages.

    image: path of the first input's file, by which label files name the sample; empty where it is none.
    """

    source: str
    inputs: NetworkInputs
    image: str = ""

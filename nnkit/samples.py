"""Sets of network inputs: what calibrations, checks and verifications run on."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, overload

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


class SamplesOnDemand(Sequence[Sample]):
    """Samples that are made when they are asked for, so that memory does not grow with their number."""

    @abstractmethod
    def sample(self, index: int) -> Sample:
        """One of them; index: from 0, below their number."""

    @overload
    def __getitem__(self, index: int) -> Sample: ...

    @overload
    def __getitem__(self, index: slice) -> list[Sample]: ...

    def __getitem__(self, index: int | slice) -> Sample | list[Sample]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self.sample(index % len(self))

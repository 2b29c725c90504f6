"""The files of weights: one, or one for each region that holds weights, under names of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class WeightFile:
    """The weights of a region. region: `""` for the only file."""

    prefix: str
    region: str
    content: bytes

    @property
    def stem(self) -> str:
        """What its names begin with."""
        return f"{self.prefix}_{self.region}" if self.region else self.prefix

    @property
    def name(self) -> str:
        """The constant of C."""
        return f"{self.stem}_weights"

    @property
    def type(self) -> str:
        """The type of the constant, where it is a structure."""
        return f"{self.stem}_weight_data"

    @property
    def bin(self) -> str:
        """The binary file."""
        return f"{self.name}.bin"

    @property
    def bytes(self) -> int:
        """Its size."""
        return len(self.content)


def weight_files(prefix: str, contents: Mapping[str, bytes]) -> tuple[WeightFile, ...]:
    """By region, as `WeightFile`."""
    return tuple(WeightFile(prefix, region, content) for region, content in contents.items())

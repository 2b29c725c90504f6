"""LayerTags: what the user said of a layer (`_hp`, `_cpu`), kept by value name through every rewrite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True)
class ValueTags:
    """Tags of the op that produces one value.

    hp: run in high precision (16 bits). cpu: keep as its own op, run on the CPU.
    origins: names of the imported layers whose arithmetic this value carries.
    """

    hp: bool = False
    cpu: bool = False
    origins: tuple[str, ...] = ()

    def merged(self, other: ValueTags) -> ValueTags:
        """The tags of an op that takes over both."""
        fewer, more = sorted((self.origins, other.origins), key=len)
        origins = self.origins + other.origins
        if fewer and not set(fewer).isdisjoint(more):
            origins = tuple(dict.fromkeys(origins))
        return ValueTags(hp=self.hp or other.hp, cpu=self.cpu or other.cpu, origins=origins)


NO_TAGS = ValueTags()


@dataclass(frozen=True)
class LayerTags:
    """Tags by the name of the value that a layer produces."""

    values: Mapping[str, ValueTags] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", MappingProxyType(dict(self.values)))

    def __reduce__(self) -> tuple[object, ...]:
        """For processes: a read-only view cannot be sent, its content can."""
        return type(self), (dict(self.values),)

    def of(self, value: str) -> ValueTags:
        """Tags of a value; untagged values give `NO_TAGS`."""
        return self.values.get(value, NO_TAGS)

    def moved(self, source: str, destination: str) -> LayerTags:
        """`source`'s tags merged into `destination`; `source` keeps none. No-op when they are the same."""
        if source == destination or source not in self.values:
            return self
        values = dict(self.values)
        tags = values.pop(source)
        values[destination] = values.get(destination, NO_TAGS).merged(tags)
        return LayerTags(values)

    def with_tags(self, value: str, tags: ValueTags) -> LayerTags:
        """A copy in which `value` has `tags`."""
        return LayerTags({**self.values, value: tags})

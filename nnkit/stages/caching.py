"""Calling a stage through the content-addressed cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, TypeVar

from nnkit.cache import Content
from nnkit.report.progress import Step
from nnkit.stages.types import Build, Imported, Restructured

T = TypeVar("T")


@dataclass(frozen=True)
class Codec:
    """How a stage's result becomes cache files and back."""

    encode: Callable[[Any], Mapping[str, Content]]
    decode: Callable[[Mapping[str, bytes]], Any]


@dataclass(frozen=True)
class StageCall:
    """One cached call: the key's parts; see `nnkit.cache`."""

    stage: str
    inputs: list[str]
    options: dict[str, Any]
    modules: list[ModuleType | str]
    tools: dict[str, str] = field(default_factory=dict)
    total: int | None = None

    def key(self, build: Build) -> str:
        """Where the cache keeps the result."""
        return build.cache.key(
            self.stage, inputs=self.inputs, options=self.options, modules=self.modules, tools=self.tools
        )


def cached(build: Build, call: StageCall, codec: Codec, compute: Callable[[Step], T], *, keep: bool = True) -> T:
    """What the cache holds, or else what `compute` gives; keep: put that into the cache."""
    from nnkit.serialize import DamagedValueError

    key = call.key(build)
    with build.progress.stage(call.stage, call.total) as step:
        files = build.cache.get(key)
        if files is not None:
            try:
                result: T = codec.decode(files)
            except (DamagedValueError, ValueError, KeyError, TypeError):  # not what this stage stored
                build.cache.drop(key)
            else:
                step.cached = True
                return result
        result = compute(step)
        if keep and build.cache.root is not None:
            build.cache.put(key, dict(codec.encode(result)))
        return result


def object_codec() -> Codec:
    from nnkit.serialize import decode, encoded_parts

    results = (Imported, Restructured)
    return Codec(
        lambda value: {"value": encoded_parts(value, results)}, lambda files: decode(files["value"], results)
    )

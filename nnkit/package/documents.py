"""Documents in which a package describes itself: JSON of the artifact, the report's `details`, ports of a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, TypeAlias

from nnkit.package.contradiction import UnreadableError
from nnkit.package.evidence import REPORT
from nnkit.reading.onnx_file import message_of

ARTIFACT_FOLDER = "artifact/"
DETAILS = f"{REPORT} (details)"
_NAMED = ("tensor", "name", "layer")
Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class Description:
    """file: as messages name it. folder: where it lies, with a final slash."""

    file: str
    folder: str
    content: Mapping[str, Any]

    @property
    def stem(self) -> str:
        """Of the C files that it describes."""
        return str(self.content.get("stem", PurePosixPath(self.file).stem))


def ports_of_network(file: str, data: bytes) -> dict[str, Any]:
    """Inputs and outputs of an ONNX file; a side without a number is the batch."""
    try:
        graph = message_of(data).graph
    except ValueError as error:
        raise UnreadableError(file, f"it is {error}") from error
    return {
        key: [
            {"name": port.name, "shape": [side.dim_value or 1 for side in port.type.tensor_type.shape.dim]}
            for port in ports
        ]
        for key, ports in (("inputs", graph.input), ("outputs", graph.output))
    }


def folder_of(name: str) -> str:
    """The folder of a file of the package, with a final slash."""
    return f"{PurePosixPath(name).parent}/"


def leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Values that hold no objects, by the keys, names and indices that lead to them."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, (*path, str(key)))
    elif isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
        for index, each in enumerate(value):
            yield from leaves(each, (*path, name_of(each) or str(index)))
    else:
        yield path, value


def name_of(value: Any) -> str | None:
    """The tensor or layer that an object is about."""
    names = [value[key] for key in _NAMED if isinstance(value.get(key), str)] if isinstance(value, Mapping) else []
    return names[0] if names else None


def integers(value: Any) -> Iterator[int]:
    """All whole numbers in JSON data."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for each in value:
            yield from integers(each)
    elif isinstance(value, int):
        yield int(value)

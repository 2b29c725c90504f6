"""What a package or a build says of itself, read strictly from its files.

Of a deployment also what each of its networks says, in `networks/<network>/`.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from nnkit.errors import UserFileError
from nnkit.package.contradiction import UnreadableError
from nnkit.reading.yaml_file import parse_yaml

REPORT, PLAN, LAYERS, RECIPE = "report.json", "plan.json", "layers.csv", "recipe.yaml"
EVIDENCE = (REPORT, PLAN, LAYERS, RECIPE)


@dataclass(frozen=True)
class Evidence:
    """The files of one network, or of a whole deployment, as data.

    folder: where they lie in the package, with a final slash; empty for the package's own.
    layers: the rows of `layers.csv`. networks: of a deployment, by name.
    """

    folder: str
    report: Mapping[str, Any]
    plan: Mapping[str, Any]
    layers: Sequence[Mapping[str, str]]
    recipe: Mapping[str, Any]
    networks: Mapping[str, Evidence] = field(default_factory=dict)

    @property
    def of_networks(self) -> tuple[Evidence, ...]:
        """That of each network: of a deployment's, or this one."""
        return tuple(self.networks.values()) or (self,)

    def file(self, name: str) -> str:
        """The name in the package of one of these files."""
        return self.folder + name


def network_folder(network: str) -> str:
    """Where a network of a deployment has its files."""
    return f"networks/{network}/"


def read_evidence(read: Callable[[str], bytes]) -> Evidence:
    """Read all files, those of a deployment's networks too.

    read: gives the content of a file by its name. Raises UnreadableError where one is not of its form, and whatever
    `read` raises.
    """
    evidence = _read(read, "")
    networks = evidence.report.get("networks")
    if networks is None:
        return evidence
    names = _network_names(networks)
    return replace(evidence, networks={name: _read(read, network_folder(name)) for name in names})


def _network_names(networks: Any) -> list[str]:
    rows = networks if isinstance(networks, list) else [None]
    names = [row.get("name") if isinstance(row, dict) else None for row in rows]
    known = [name for name in names if isinstance(name, str) and PurePosixPath(name).name == name and name != ".."]
    if len(known) != len(rows) or len(set(known)) != len(known):
        raise UnreadableError(REPORT, "its networks have no names of their own")
    return known


def _read(read: Callable[[str], bytes], folder: str) -> Evidence:
    report, plan, layers, recipe = ((folder + name, read(folder + name)) for name in EVIDENCE)
    return Evidence(folder, json_object(*report), json_object(*plan), _rows(*layers), _recipe(*recipe))


def json_object(file: str, data: bytes) -> dict[str, Any]:
    """The object in a JSON file, in which no key stands twice: readers differ in which of the two counts.

    Raises UnreadableError for anything else.
    """
    text = _text(file, data)
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse)
        json.dumps(value, ensure_ascii=False).encode()  # half a character, \ud800, is none
    except RecursionError as error:
        raise UnreadableError(file, "it is nested too deep") from error
    except ValueError as error:
        reason = "a text holds half a character" if isinstance(error, UnicodeEncodeError) else str(error)
        raise UnreadableError(file, f"it is not JSON: {reason}") from error
    if not isinstance(value, dict):
        raise UnreadableError(file, "it is not a JSON object")
    return value


def _text(file: str, data: bytes) -> str:
    """The text of a file. Raises UnreadableError where it is not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableError(file, "it is not UTF-8 text") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!a} stands twice in an object")
    return content


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def _rows(file: str, data: bytes) -> list[dict[str, str]]:
    text = _text(file, data)
    try:
        lines = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise UnreadableError(file, f"it is not CSV: {error}") from error
    heading = lines[0] if lines else []
    if not heading or len(set(heading)) != len(heading):
        raise UnreadableError(file, "it has no heading with a name of its own for each column")
    odd = next((i for i, line in enumerate(lines, 1) if len(line) != len(heading)), None)
    if odd is not None:
        raise UnreadableError(file, f"row {odd} has not as many cells as the heading")
    return [dict(zip(heading, line, strict=True)) for line in lines[1:]]


def _recipe(file: str, data: bytes) -> dict[str, Any]:
    try:
        content = parse_yaml(_text(file, data), what="the recipe", where=file, remedy="")
    except UserFileError as error:
        raise UnreadableError(file, error.reason) from error
    if not isinstance(content, dict):
        raise UnreadableError(file, "it is not a recipe")
    return content

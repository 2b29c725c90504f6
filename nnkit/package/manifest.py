"""The manifest of a release package: what it holds, what it was made from, and what was measured of it.

`manifest.json` has one form: sorted keys, two blanks of indentation, ASCII, a final newline. `digest` is the SHA-256
of that form without the key itself.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from nnkit.errors import UsageError
from nnkit.package.paths import why_refused, why_refused_together

FORMAT = 3
"""Since 3 provenance is an envelope, and a deployment's networks have their reports in the package."""

READABLE_FORMATS = (2, FORMAT)
MANIFEST_NAME = "manifest.json"
MAX_MANIFEST_BYTES = 16 << 20
_IDENTIFIER = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._+@-]{0,78}[A-Za-z0-9])?")
SHA256 = re.compile(r"[0-9a-f]{64}")


class ManifestError(Exception):
    """A manifest that cannot be read; the message says why."""


class OtherFormatError(ManifestError):
    """A manifest of a format that this version does not read."""


@dataclass(frozen=True)
class FileRecord:
    """Size and SHA-256 (64 hex digits) of one file."""

    sha256: str
    bytes: int


@dataclass(frozen=True)
class Manifest:
    """What a package says of itself. All values but `files` are JSON values.

    status: `ok`, or `unproven` where nothing has run the artifact.
    recipe: the recipe as resolved: variables replaced, fragments included, defaults filled in.
    tools: version by tool name.
    memory: by region, as in `report.json`. accuracy: the `verify` section of `report.json`.
    inputs, outputs: one object a tensor: at least `name`, `shape` and `format`.
    postprocess: one object a CPU-side stage.
    files: by name in the archive, without the manifest itself; the writer fills it in.
    format: of the package.

    Raises UsageError where name, version or target cannot be part of a file name.
    """

    name: str
    version: str
    target: str
    status: str
    nnkit: str
    recipe: Mapping[str, Any]
    tools: Mapping[str, str]
    memory: Mapping[str, Any]
    accuracy: Mapping[str, Any]
    inputs: Sequence[Mapping[str, Any]]
    outputs: Sequence[Mapping[str, Any]]
    postprocess: Sequence[Mapping[str, Any]] = ()
    files: Mapping[str, FileRecord] = field(default_factory=dict)
    format: int = FORMAT

    def __post_init__(self) -> None:
        for key in ("name", "version", "target"):
            value = getattr(self, key)
            if not isinstance(value, str) or not _IDENTIFIER.fullmatch(value):
                raise UsageError(
                    f"{value!r} cannot be part of a package's file name",
                    where=f"release.{key}" if key == "version" else key,
                    remedy="use 1 to 80 letters, digits, dots, dashes, underscores, plus or at signs",
                )

    @property
    def notes(self) -> str:
        """The recipe's `release.notes`: text for those who receive the release; may be empty."""
        release = self.recipe.get("release")
        notes = release.get("notes") if isinstance(release, Mapping) else None
        return notes if isinstance(notes, str) else ""

    @property
    def file_name(self) -> str:
        """`<name>-<version>-<target>.nnpkg`."""
        return f"{self.name}-{self.version}-{self.target}.nnpkg"

    def to_json(self) -> bytes:
        """The bytes of `manifest.json`. Raises UsageError where a value cannot be written as JSON."""
        content: dict[str, Any] = {
            each.name: getattr(self, each.name) for each in fields(self) if each.name != "files"
        }
        content["files"] = {name: asdict(record) for name, record in self.files.items()}
        content = json.loads(json_bytes(content, where=MANIFEST_NAME))  # keys that are numbers become texts
        content["digest"] = hashlib.sha256(_canonical(content)).hexdigest()
        return _canonical(content)


def said_by_report(report: Mapping[str, Any]) -> dict[str, Any]:
    """What a manifest has of the report; None for what is missing there."""
    keys = ("nnkit", "target", "status", "memory", "inputs", "outputs", "tools")
    return {**{key: report.get(key) for key in keys}, "accuracy": report.get("verify")}


def said_by_recipe(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """What a manifest has of the recipe as resolved; None for what is missing there."""
    release = recipe.get("release")
    version = release.get("version") if isinstance(release, Mapping) else None
    postprocess = recipe.get("postprocess") or []
    return {"name": recipe.get("name"), "version": version, "postprocess": postprocess, "recipe": recipe}


def json_bytes(content: Any, *, where: str) -> bytes:
    """A file of a package in the form of `manifest.json`. Raises UsageError where a value cannot be written as JSON.

    where: the file in the message.
    """
    try:
        return _canonical(content)
    except (TypeError, ValueError, RecursionError) as error:
        reason = "the keys of a mapping are of several types" if "not supported between" in str(error) else str(error)
        raise UsageError(
            f"a value cannot be written as JSON: {reason}",
            where=where,
            remedy="use texts, finite numbers, true, false, null, lists, and mappings with texts as keys",
        ) from error


def parse_manifest(data: bytes) -> Manifest:
    """Reads and checks the bytes of `manifest.json`.

    Raises ManifestError where they are not the one form, the digest differs, a value has the wrong type, or a file's
    name is refused; OtherFormatError where the format is another.
    """
    content = _parse_object(data)
    if content.get("format") not in READABLE_FORMATS or isinstance(content["format"], bool | float):
        known = " and ".join(str(number) for number in READABLE_FORMATS)
        raise OtherFormatError(
            f"the package has format {content.get('format')!r}; this version reads formats {known}"
        )
    expected = content.pop("digest", None)
    if hashlib.sha256(_canonical(content)).hexdigest() != expected:
        raise ManifestError("the manifest was changed: its digest differs")
    _check_types(content)
    records = {name: _file_record(name, record) for name, record in content.pop("files").items()}
    together = why_refused_together(records)
    if together:
        raise ManifestError(together)
    try:
        return Manifest(**content, files=records)
    except UsageError as error:
        raise ManifestError(error.reason) from error


def _parse_object(data: bytes) -> dict[str, Any]:
    try:
        content = json.loads(data.decode("ascii"))
        canonical = _canonical(content)
    except (ValueError, TypeError, RecursionError) as error:
        raise ManifestError(f"the manifest is not JSON as written by nnkit: {error}") from error
    if not isinstance(content, dict) or canonical != data:
        raise ManifestError("the manifest was changed: it is not in the form that nnkit writes")
    return content


def _check_types(content: Mapping[str, Any]) -> None:
    known = {each.name for each in fields(Manifest)}
    if content.keys() != known:
        odd = ", ".join(sorted(content.keys() ^ known))
        raise ManifestError(f"the manifest lacks or does not know: {odd}")
    texts = ("name", "version", "target", "status", "nnkit")
    lists = ("inputs", "outputs", "postprocess")
    for key, value in content.items():
        expected = str if key in texts else list if key in lists else int if key == "format" else dict
        if not isinstance(value, expected):
            raise ManifestError(f"{key} is not a {expected.__name__}")


def _file_record(name: str, record: Any) -> FileRecord:
    reason = "is the manifest's own name" if name.lower() == MANIFEST_NAME else why_refused(name)
    if reason:
        raise ManifestError(f"the file name {name!a} {reason}")
    match record:
        case {"sha256": str(sha256), "bytes": int(size_bytes), **rest}:
            well_formed = (
                SHA256.fullmatch(sha256) and size_bytes >= 0 and not isinstance(size_bytes, bool) and not rest
            )
        case _:
            well_formed = None
    if not well_formed:
        raise ManifestError(f"the record of {name!r} is not {{sha256, bytes}}")
    return FileRecord(record["sha256"], record["bytes"])


def _canonical(content: Any) -> bytes:
    text = json.dumps(content, sort_keys=True, indent=2, ensure_ascii=True, allow_nan=False)
    return text.encode("ascii") + b"\n"

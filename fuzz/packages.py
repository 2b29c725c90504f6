"""Release packages: bytes, names and contents damaged, the archive's own sums made right again for some."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from fuzz.damage import damaged_bytes, damaged_json

if TYPE_CHECKING:
    from nnkit.package.manifest import Manifest

Seeds = bytes
_NAMES = ("../x", "/x", "a/../../x", "C:\\x", "nul", "a" * 300, "MANIFEST.JSON", "a/", "x\x00y", "artifact", "\u00e9")


def seeds(folder: Path) -> Seeds:
    """A package."""
    from nnkit.package.archive import write_archive

    files = {"report.json": b"{}", "artifact/net.c": b"int x;" * 50, "artifact/weights.bin": bytes(500)}
    return write_archive(files, small_manifest(), folder / "net.nnpkg").read_bytes()


def small_manifest() -> Manifest:
    """A manifest of a release that says nothing beyond what it must."""
    from nnkit.package.manifest import Manifest

    empty: dict[str, Any] = {"recipe": {}, "tools": {}, "memory": {}, "accuracy": {}, "inputs": (), "outputs": ()}
    return Manifest(name="net", version="1", target="gap8", status="ok", nnkit="0", **empty)


def attempt(given: Seeds, chance: Random, folder: Path) -> None:
    """One damaged package inspected, verified or extracted; nothing may appear beside the folder it goes to."""
    from nnkit.errors import NnkitError
    from nnkit.package import extract_package, inspect_package, verify_package

    path = folder / "net.nnpkg"
    data = _rewritten(given, chance) if chance.random() < 0.6 else given
    if data is given or chance.random() < 0.3:
        for _ in range(chance.choice((1, 1, 2, 3))):
            data = damaged_bytes(data, chance)
    path.write_bytes(data)
    command = chance.choice(("inspect", "verify", "extract"))
    if command == "inspect":
        inspect_package(path)
    elif command == "verify":
        verify_package(path)
    else:
        try:
            extract_package(path, folder / "there")
        except NnkitError:
            beside = [each.name for each in folder.iterdir() if each != path]
            if beside:
                raise AssertionError(f"refused, and left {beside}") from None
            raise
        if verify_package(path).sha256 is None:
            raise AssertionError("extracted what does not verify")


def _rewritten(data: bytes, chance: Random) -> bytes:
    """The same members by another writer, one of them changed."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as new:
        members = old.infolist()
        victim = chance.choice(members)
        for member in members:
            content = old.read(member)
            if member is victim:
                kind = chance.randrange(4)
                if kind == 0:
                    member.filename = chance.choice(_NAMES)
                elif kind == 1 and member.filename == "manifest.json":
                    content = json.dumps(json.loads(damaged_json(content.decode(), chance)), indent=2).encode()
                elif kind == 2:
                    member.external_attr = chance.choice((0o120777, 0o040755, 0o020644)) << 16
                else:
                    content = damaged_bytes(content, chance)
            new.writestr(member, content, chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))
    return stream.getvalue()

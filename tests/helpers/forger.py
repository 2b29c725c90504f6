"""A forger without a key: changes what a package says and packs it again, whole in every digest.

Written from the format's description (docs/packages.md) with zipfile, hashlib and json alone.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import uuid
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

MANIFEST, PROVENANCE, SBOM = "manifest.json", "provenance.intoto.json", "sbom.cdx.json"
_MADE = (MANIFEST, PROVENANCE, SBOM)


class Forger:
    """The files of a package. Documents are edited as data; of the envelope the statement in it."""

    def __init__(self, package: Path) -> None:
        with zipfile.ZipFile(package) as archive:
            self.files = {name: archive.read(name) for name in archive.namelist()}

    def document(self, name: str) -> Any:
        """A JSON document."""
        data = self.files[name]
        return json.loads(base64.b64decode(json.loads(data)["payload"]) if name == PROVENANCE else data)

    def write(self, name: str, content: Any) -> None:
        """Puts a document back in its form."""
        if name in ("report.json", "plan.json") or name.endswith(("/report.json", "/plan.json")):
            self.files[name] = json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n"
            return
        self.files[name] = _canonical(content)
        if name == PROVENANCE:
            envelope = {
                "payload": base64.b64encode(self.files[name]).decode(),
                "payloadType": "application/vnd.in-toto+json",
                "signatures": [],
            }
            self.files[name] = _canonical(envelope)

    def edit(self, name: str, change: Callable[[Any], object]) -> Forger:
        """Changes a document."""
        content = self.document(name)
        change(content)
        self.write(name, content)
        return self

    def replace(self, name: str, old: str, new: str) -> Forger:
        """Changes a text."""
        text = self.files[name].decode()
        assert old in text, (name, old)
        self.files[name] = text.replace(old, new).encode()
        return self

    def renew_report(self) -> Forger:
        """The reports name the SHA-256 that files have now."""
        for folder in sorted({name.rpartition("/")[0] for name in self.files if name.endswith("report.json")})[::-1]:
            prefix = f"{folder}/" if folder else ""
            report = self.document(f"{prefix}report.json")
            report["files"] = {each: self._entry(prefix + each) for each in report["files"]}
            if not folder:
                report["artifact"] = {n[9:]: self._entry(n) for n in sorted(self.files) if n.startswith("artifact/")}
                for row in report.get("networks", ()):
                    row["files"] = {each: self._entry(f"{row['folder']}/{each}") for each in row["files"]}
            self.write(f"{prefix}report.json", report)
        return self

    def pack(self, out: Path) -> Path:
        """Provenance, bill of materials and manifest name the SHA-256 that files have now."""
        named = {name: self._entry(name)["sha256"] for name in sorted(self.files) if name not in _MADE}

        def subjects(statement: Any) -> None:
            statement["subject"] = [{"name": name, "digest": {"sha256": it}} for name, it in named.items()]

        def components(bill: Any) -> None:
            bill["components"] = [
                {"type": "file", "bom-ref": name, "name": name, "hashes": [{"alg": "SHA-256", "content": it}]}
                for name, it in named.items()
            ]
            bill["dependencies"][0]["dependsOn"] = list(named)
            bill.pop("serialNumber", None)
            text = json.dumps(bill, sort_keys=True)
            bill["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, text)}"

        def records(manifest: Any) -> None:
            manifest["files"] = {name: self._entry(name) for name in self.files if name != MANIFEST}
            manifest.pop("digest", None)
            manifest["digest"] = hashlib.sha256(_canonical(manifest)).hexdigest()

        for name, change in ((PROVENANCE, subjects), (SBOM, components), (MANIFEST, records)):
            self.edit(name, change)
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
            for name in (MANIFEST, *sorted(self.files.keys() - {MANIFEST})):
                info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                info.external_attr, info.create_system = 0o100644 << 16, 3
                archive.writestr(info, self.files[name])
        out.write_bytes(stream.getvalue())
        return out

    def _entry(self, name: str) -> dict[str, Any]:
        data = self.files[name]
        return {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}


def _canonical(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, indent=2).encode() + b"\n"

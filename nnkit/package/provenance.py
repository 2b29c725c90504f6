"""What a package is made of, for tools of others: an in-toto statement with SLSA provenance, and a CycloneDX SBOM.

The statement lies in an envelope (`envelope.py`). Both are made of the build's report and recipe alone, without times
and hosts: the same build gives the same bytes.
Formats: in-toto Statement 1, SLSA provenance 1 (slsa.dev/spec/v1.0/provenance), CycloneDX 1.5 (cyclonedx.org).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from nnkit.errors import UserFileError
from nnkit.package.evidence import Evidence
from nnkit.package.manifest import SHA256, FileRecord, Manifest, json_bytes

PROVENANCE_NAME = "provenance.intoto.json"
SBOM_NAME = "sbom.cdx.json"
_BUILD_TYPE = "urn:nnkit:build:1"
_BUILDER = "urn:nnkit:builder:1"


def dependencies(evidence: Evidence) -> dict[str, Any]:
    """What a build was made from and keeps outside of its package, with SHA-256 by name; of a deployment that of all
    its networks."""
    stages_by_name: dict[str, Any] = {}
    for each in evidence.of_networks:
        stages = each.report.get("stages")
        stages_by_name |= {
            each.file(name): entry for name, entry in (stages if isinstance(stages, dict) else {}).items()
        }
    return stages_by_name


def statement(manifest: Manifest, files: Mapping[str, FileRecord], stages: Mapping[str, Any]) -> bytes:
    """The statement. files: all of the package but this one and the SBOM. stages: what `dependencies` gives.

    Raises UsageError where a value of the manifest cannot be written as JSON, UserFileError where a stage has no
    SHA-256: in-toto knows no dependency with an empty digest.
    """
    return json_bytes(
        {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": name, "digest": {"sha256": it.sha256}} for name, it in sorted(files.items())],
            "predicateType": "https://slsa.dev/provenance/v1",
            "predicate": {
                "buildDefinition": {
                    "buildType": _BUILD_TYPE,
                    "externalParameters": {"recipe": manifest.recipe, "target": manifest.target},
                    "internalParameters": {"status": manifest.status},
                    "resolvedDependencies": [
                        {"name": name, "digest": {"sha256": _sha256(name, entry)}}
                        for name, entry in sorted(stages.items())
                    ],
                },
                "runDetails": {
                    "builder": {"id": _BUILDER, "version": {"nnkit": manifest.nnkit, **dict(manifest.tools)}}
                },
            },
        },
        where=PROVENANCE_NAME,
    )


def _sha256(name: str, entry: Any) -> str:
    digest = entry.get("sha256") if isinstance(entry, Mapping) else None
    if not isinstance(digest, str) or not SHA256.fullmatch(digest):
        raise UserFileError(
            f"the report has no SHA-256 of {name}",
            where="report.json",
            remedy="run the recipe again: nnkit run RECIPE",
        )
    return digest


def sbom(manifest: Manifest, files: Mapping[str, FileRecord]) -> bytes:
    """The bill of materials: the files of the package, and the tools that made them."""
    release = {
        "type": "firmware",
        "bom-ref": f"{manifest.name}@{manifest.version}",
        "name": manifest.name,
        "version": manifest.version,
    }
    tools = [{"type": "application", "name": "nnkit", "version": manifest.nnkit}]
    tools += [{"type": "library", "name": name, "version": text} for name, text in sorted(manifest.tools.items())]
    components = [
        {"type": "file", "bom-ref": name, "name": name, "hashes": [{"alg": "SHA-256", "content": it.sha256}]}
        for name, it in sorted(files.items())
    ]
    content: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": release, "tools": {"components": tools}},
        "components": components,
        "dependencies": [{"ref": release["bom-ref"], "dependsOn": [each["bom-ref"] for each in components]}],
    }
    name = json.dumps(content, sort_keys=True)
    serial = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, name)}"
    return json_bytes(content | {"serialNumber": serial}, where=SBOM_NAME)

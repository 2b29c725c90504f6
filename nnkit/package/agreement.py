"""What a package says twice: recipe and report, report and files, and all that is made of them.

Manifest, provenance and bill of materials hold nothing that recipe, report and files do not say, so they are made
again and compared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict

from nnkit.package.contradiction import ContradictionError, hold_equal
from nnkit.package.envelope import read_envelope
from nnkit.package.evidence import EVIDENCE, RECIPE, REPORT, Evidence, json_object, network_folder
from nnkit.package.manifest import (
    MANIFEST_NAME,
    FileRecord,
    Manifest,
    json_bytes,
    said_by_recipe,
    said_by_report,
)
from nnkit.package.provenance import PROVENANCE_NAME, SBOM_NAME, dependencies, sbom, statement

ARTIFACT = "artifact"


def check_files(evidence: Evidence, records: Mapping[str, FileRecord]) -> None:
    """Raises ContradictionError where files are not those that the report was written with, or more.

    records: of all files but those that are made of them.
    """
    report, file = evidence.report, evidence.file(REPORT)
    stated = {f"{ARTIFACT}/{name}": record for name, record in report["artifact"].items()}
    stated |= report["files"]
    for row in report.get("networks", ()):
        stated |= {network_folder(row["name"]) + name: record for name, record in row["files"].items()}
    wanted = {name for each in (evidence, *evidence.networks.values()) for name in map(each.file, EVIDENCE)}
    missing = sorted(wanted - stated.keys() - {file})
    if missing:
        raise ContradictionError(file, f"it has no SHA-256 of {missing[0]}")
    for name in sorted(stated.keys() | records.keys() - {file}):
        if name not in records:
            raise ContradictionError(file, f"it names {name!r}, which is not there")
        if name not in stated:
            raise ContradictionError(name, f"{file} does not name it")
        hold_equal(file, stated[name], "the file itself", asdict(records[name]), at=f"of {name!r}")
    for network in evidence.networks.values():
        for name, record in network.report["files"].items():
            stored = asdict(records[network.file(name)])
            hold_equal(network.file(REPORT), record, "the file itself", stored, at=f"of {name!r}")


def check_recipe(evidence: Evidence) -> None:
    """Raises ContradictionError where the report is of another recipe."""
    report, recipe, file = evidence.report, evidence.recipe, evidence.file(REPORT)
    other = evidence.file(RECIPE)
    hold_equal(file, report["recipe"], other, recipe["name"], at="the recipe's name")
    targets = recipe["targets"]
    if report["target"] not in targets:
        raise ContradictionError(file, f"its target {report['target']!r} is none of {other}")
    hold_equal(file, [report["target"]], other, list(targets), at="targets")
    if evidence.networks:
        hold_equal(
            file,
            [row["name"] for row in report["networks"]],
            other,
            list(recipe["deployment"]["networks"]),
            at="networks",
        )
        return
    asked = recipe["verify"].get("task")
    said = report["verify"].get("task")
    if asked is not None:
        kind = said["kind"] if said is not None else None
        hold_equal(file, kind, other, asked["kind"], at="the task's kind")
    elif said is not None:
        raise ContradictionError(file, f"its figures are of a task {said['kind']!r}, {other} has none")
    own = targets[report["target"]] or {}
    calibration = own.get("calibration") or recipe.get("calibration") or {}
    method = calibration.get("method")
    if method not in (None, "auto") and calibration.get("table") is None:
        hold_equal(file, report["calibration"]["method"], other, method, at="calibration.method")


def check_derived(evidence: Evidence, manifest: Manifest, members: Mapping[str, bytes]) -> None:
    """Raises ContradictionError where manifest, provenance or bill of materials say anything else than recipe,
    report and files.

    members: content of the three, by name.
    """
    said = json_object(MANIFEST_NAME, members[MANIFEST_NAME])
    for file, values in ((REPORT, said_by_report(evidence.report)), (RECIPE, said_by_recipe(evidence.recipe))):
        wanted = json.loads(json_bytes(values, where=file))
        hold_equal(MANIFEST_NAME, {key: said[key] for key in wanted}, file, wanted)
    records = {name: it for name, it in manifest.files.items() if name not in (PROVENANCE_NAME, SBOM_NAME)}
    stated = read_envelope(PROVENANCE_NAME, members[PROVENANCE_NAME]).payload
    wanted = json.loads(statement(manifest, records, dependencies(evidence)))
    hold_equal(PROVENANCE_NAME, json_object(PROVENANCE_NAME, stated), f"{MANIFEST_NAME} and {REPORT}", wanted)
    materials = json_object(SBOM_NAME, members[SBOM_NAME])
    hold_equal(SBOM_NAME, materials, MANIFEST_NAME, json.loads(sbom(manifest, records)))

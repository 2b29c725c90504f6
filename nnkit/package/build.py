"""From a build folder to its release package.

Packed are `report.json`, `plan.json`, `layers.csv`, `recipe.yaml` (the recipe as resolved) and all of `artifact/`;
and, made of these, provenance and a bill of materials (`nnkit.package.provenance`).
`run.json` (it differs between runs), the ONNX stages and `verify/` stay behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from nnkit.build_status import RELEASED
from nnkit.errors import GateFailedError, UsageError, UserFileError
from nnkit.package.archive import file_sha256, write_archive
from nnkit.package.artifact_files import artifact_files, changed_files, is_as_recorded
from nnkit.package.manifest import FileRecord, Manifest
from nnkit.package.proofs import check_records
from nnkit.package.provenance import PROVENANCE_NAME, SBOM_NAME, provenance, sbom
from nnkit.reading import check_plain_tree, read_json_object, read_yaml

PACKED = ("report.json", "plan.json", "layers.csv", "recipe.yaml")
ARTIFACT = "artifact"
_RUN_FIRST = "run the recipe first: nnkit run RECIPE"
_EXTRA = {each.name for each in fields(Manifest)} - {"files"}


def build_package(build_dir: Path, out: Path | None = None, *, manifest_extra: Mapping[str, Any]) -> Path:
    """Packs a verified build; returns the archive's path. The same build gives the same bytes.

    Args:
        build_dir: `out/<name>/<target>/`.
        out: the archive, or an existing folder for `<name>-<version>-<target>.nnpkg`; None: the build folder.
        manifest_extra: values of the manifest by key (see `Manifest`) that replace those taken from the build:
            nnkit, target, status, memory, accuracy, inputs, outputs and tools from the report; name, version, recipe
            and postprocess from the recipe.

    Raises UserFileError where the build is incomplete or unreadable, GateFailedError where it did not pass, its
    artifact is not the one that was verified, or a proof that it would be released with does not hold, UsageError
    where a value of the manifest is missing or unknown.
    """
    for name in ("report.json", "recipe.yaml"):
        if not (build_dir / name).is_file():
            raise UserFileError(f"the build has no {name}", where=str(build_dir), remedy=_RUN_FIRST)
    check_plain_tree(build_dir, "a build")
    report = read_json_object(build_dir / "report.json", what="the report", remedy=_RUN_FIRST)
    if report.get("status") not in RELEASED:
        raise GateFailedError(
            f"the build ended with status {report.get('status')!r}: only {' and '.join(RELEASED)} are released",
            where=str(build_dir / "report.json"),
            remedy="see the gates and the verification in the report, then run again",
        )
    recipe = _recipe(build_dir / "recipe.yaml")
    manifest = _manifest(report, recipe, manifest_extra)
    artifact = artifact_files(build_dir / ARTIFACT)
    if not artifact:
        raise UserFileError("the build has no artifact", where=str(build_dir / ARTIFACT), remedy=_RUN_FIRST)
    files = {name: build_dir / name for name in PACKED}
    files |= {f"{ARTIFACT}/{name}": path for name, path in artifact.items()}
    for name, path in files.items():
        if not path.is_file():
            raise UserFileError(f"the build has no {name}", where=str(build_dir), remedy=_RUN_FIRST)
    _check_artifact(build_dir / ARTIFACT, report)
    plan = read_json_object(build_dir / "plan.json", what="the memory plan", remedy=_RUN_FIRST)
    try:
        check_records(plan, report)
    except GateFailedError as error:
        raise GateFailedError(error.reason, where=str(build_dir), remedy=_RUN_FIRST) from error
    _check_beside(build_dir, report)
    records = {name: FileRecord(file_sha256(path), path.stat().st_size) for name, path in files.items()}
    stages = report.get("stages")
    made: dict[str, bytes | Path] = {
        PROVENANCE_NAME: provenance(manifest, records, stages if isinstance(stages, dict) else {}),
        SBOM_NAME: sbom(manifest, records),
    }
    return write_archive(made | files, manifest, _archive_path(build_dir, out, manifest), sent=[build_dir])


def _archive_path(build_dir: Path, out: Path | None, manifest: Manifest) -> Path:
    if out is None:
        return build_dir / manifest.file_name
    return out / manifest.file_name if out.is_dir() else out


def _manifest(report: Mapping[str, Any], recipe: Mapping[str, Any], extra: Mapping[str, Any]) -> Manifest:
    unknown = sorted(extra.keys() - _EXTRA)
    if unknown:
        raise UsageError(
            f"the manifest has no {', '.join(unknown)}",
            where="package",
            remedy=f"known are {', '.join(sorted(_EXTRA))}",
        )
    values: dict[str, Any] = {
        key: report.get(key) for key in ("nnkit", "target", "status", "memory", "inputs", "outputs", "tools")
    }
    values["accuracy"] = report.get("verify")
    values["name"] = recipe.get("name")
    values["version"] = (recipe.get("release") or {}).get("version")
    values["postprocess"] = recipe.get("postprocess") or []
    values["recipe"] = recipe
    values.update(extra)
    missing = sorted(key for key, value in values.items() if value is None)
    if missing:
        raise UsageError(
            f"the build does not say: {', '.join(missing)}",
            where="package",
            remedy="run the recipe again with this version of nnkit",
        )
    return Manifest(**values)


def _check_artifact(folder: Path, report: Mapping[str, Any]) -> None:
    """The report lists what was verified, by path below `artifact/`: exactly that is released."""
    names = artifact_files(folder)
    verified = report.get("artifact")
    odd = sorted(set(names) ^ set(verified if isinstance(verified, dict) else {}))
    if odd or not names:
        raise GateFailedError(
            f"the artifact is not the one that was verified: {', '.join(odd[:3])} is in one of folder and report",
            where=str(folder),
            remedy=_RUN_FIRST,
        )
    changed = changed_files(folder, report)
    if changed:
        raise _changed(folder / changed[0])


def _check_beside(build_dir: Path, report: Mapping[str, Any]) -> None:
    """Plan, table of layers and recipe are those that the report was written with, where it says."""
    records = report.get("files")
    for name, record in (records if isinstance(records, dict) else {}).items():
        if name in PACKED and not is_as_recorded(build_dir / name, record):
            raise _changed(build_dir / name)


def _changed(path: Path) -> GateFailedError:
    return GateFailedError(
        "was changed after it was verified: its SHA-256 differs from the report", where=str(path), remedy=_RUN_FIRST
    )


def _recipe(path: Path) -> dict[str, Any]:
    content = read_yaml(path, what="the recipe", remedy=_RUN_FIRST)
    if not isinstance(content, dict):
        raise UserFileError("is not a recipe", where=str(path), remedy=_RUN_FIRST)
    return content

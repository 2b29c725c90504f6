"""From a build folder to its release package.

Packed are `report.json`, `plan.json`, `layers.csv`, `recipe.yaml` (the recipe as resolved) and all of `artifact/`; of
a deployment also these four of each of its networks, in `networks/<network>/`; and, made of these, provenance and a
bill of materials (`nnkit.package.provenance`). `run.json` (it differs between runs), the ONNX stages and `verify/`
stay behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.build_status import RELEASED
from nnkit.errors import GateFailedError, UsageError, UserFileError
from nnkit.package.agreement import ARTIFACT
from nnkit.package.archive import file_sha256, write_archive
from nnkit.package.artifact_files import artifact_files, changed_files, is_as_recorded
from nnkit.package.contradiction import PackageFileError, UnreadableError
from nnkit.package.envelope import envelope
from nnkit.package.evidence import EVIDENCE, REPORT, Evidence, read_evidence
from nnkit.package.manifest import FileRecord, Manifest, said_by_recipe, said_by_report
from nnkit.package.proofs import check_evidence
from nnkit.package.provenance import PROVENANCE_NAME, SBOM_NAME, dependencies, sbom, statement
from nnkit.reading import check_plain_tree, read_bytes

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_RUN_FIRST = "run the recipe first: nnkit run RECIPE"


def build_package(build_dir: Path, out: Path | None = None, *, key: Ed25519PrivateKey | None = None) -> Path:
    """Packs a verified build; returns the archive's path. The same build and key give the same bytes.

    Args:
        build_dir: `out/<name>/<target>/`.
        out: the archive, or an existing folder for `<name>-<version>-<target>.nnpkg`; None: the build folder.
        key: signs the provenance.

    Raises UserFileError where the build is incomplete or unreadable, GateFailedError where it did not pass, its
    artifact is not the one that was verified, or a proof that it would be released with does not hold, UsageError
    where a value of the manifest is missing.
    """
    if not (build_dir / REPORT).is_file():
        raise UserFileError(f"the build has no {REPORT}", where=str(build_dir), remedy=_RUN_FIRST)
    check_plain_tree(build_dir, "a build")
    evidence = _evidence(build_dir)
    report = evidence.report
    if report.get("status") not in RELEASED:
        raise GateFailedError(
            f"the build ended with status {report.get('status')!r}: only {' and '.join(RELEASED)} are released",
            where=str(build_dir / "report.json"),
            remedy="see the gates and the verification in the report, then run again",
        )
    manifest = _manifest(evidence)
    artifact = artifact_files(build_dir / ARTIFACT)
    if not artifact:
        raise UserFileError("the build has no artifact", where=str(build_dir / ARTIFACT), remedy=_RUN_FIRST)
    names = [each.file(name) for each in (evidence, *evidence.networks.values()) for name in EVIDENCE]
    files = {name: build_dir / name for name in names}
    files |= {f"{ARTIFACT}/{name}": path for name, path in artifact.items()}
    _check_artifact(build_dir / ARTIFACT, report)
    for each in (evidence, *evidence.networks.values()):
        _check_beside(build_dir / each.folder, each.report)
    records = {name: FileRecord(file_sha256(path), path.stat().st_size) for name, path in files.items()}
    try:
        check_evidence(evidence, records)
    except PackageFileError as error:
        reason = f"a proof does not hold: {error.reason}"
        raise GateFailedError(reason, where=str(build_dir / error.file), remedy=_RUN_FIRST) from error
    made: dict[str, bytes | Path] = {
        PROVENANCE_NAME: envelope(statement(manifest, records, dependencies(evidence)), key),
        SBOM_NAME: sbom(manifest, records),
    }
    return write_archive(made | files, manifest, _archive_path(build_dir, out, manifest), sent=[build_dir])


def _evidence(build_dir: Path) -> Evidence:
    def read(name: str) -> bytes:
        if not (build_dir / name).is_file():
            raise UserFileError(f"the build has no {name}", where=str(build_dir), remedy=_RUN_FIRST)
        return read_bytes(build_dir / name, what=name)

    try:
        return read_evidence(read)
    except UnreadableError as error:
        raise UserFileError(error.reason, where=str(build_dir / error.file), remedy=_RUN_FIRST) from error


def _archive_path(build_dir: Path, out: Path | None, manifest: Manifest) -> Path:
    if out is None:
        return build_dir / manifest.file_name
    return out / manifest.file_name if out.is_dir() else out


def _manifest(evidence: Evidence) -> Manifest:
    values = said_by_report(evidence.report) | said_by_recipe(evidence.recipe)
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
    """Plan, table of layers and recipe are those that the report was written with."""
    records = report.get("files")
    for name, record in (records if isinstance(records, dict) else {}).items():
        if name in EVIDENCE and not is_as_recorded(build_dir / name, record):
            raise _changed(build_dir / name)


def _changed(path: Path) -> GateFailedError:
    return GateFailedError(
        "was changed after it was verified: its SHA-256 differs from the report", where=str(path), remedy=_RUN_FIRST
    )

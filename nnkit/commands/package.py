"""`nnkit package build|verify|extract|inspect`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.commands.common import byte_count, print_json
from nnkit.terminal import print_line

if TYPE_CHECKING:
    from nnkit.package import Manifest, VerifyResult


def build_command(build: Path, out: Path | None, key: Path | None, *, json: bool) -> None:
    """Pack a verified build again. key: private key (PEM) that signs provenance and package."""
    from nnkit.errors import UserFileError
    from nnkit.package import build_package, read_private_key, sign_package
    from nnkit.reading import read_bytes

    private = None
    if key is not None:
        try:
            private = read_private_key(read_bytes(key, what="the signing key"))
        except UserFileError as error:
            raise UserFileError(error.reason, where=str(key), remedy=error.remedy) from error
    path = build_package(build, out, key=private)
    if private is not None:
        sign_package(path, private)
    size = path.stat().st_size
    if json:
        print_json({"package": str(path), "bytes": size, "signed": private is not None})
    else:
        print_line(f"{path} ({byte_count(size)})" + (", signed" if private is not None else ""))


def verify_command(package: Path, key: Path | None, *, json: bool, proofs: bool = False) -> None:
    """Check every byte; with a public key, or a signer in the user's configuration, also signatures.

    proofs: check again what the package says is proven.
    """
    from nnkit.api.stated_times import check_times
    from nnkit.package import verify_package
    from nnkit.package.proofs import check_proofs

    result = verify_package(package)
    standing = _standing(result, key)
    proven = check_proofs(result, check_times) if proofs else None
    standing.accept()
    if json:
        data: dict[str, Any] = {"package": str(package), "sha256": result.sha256, "intact": True}
        data |= standing.as_json()
        if proven is not None:
            data["proofs"] = {
                "checked": list(proven.checked),
                "accumulators": dict(proven.accumulators),
                "not_proven_without_signature": list(proven.unproven),
            }
        print_json(data)
        return
    manifest = result.manifest
    print_line(f"{package}: intact, {standing.signed}")
    if proven is not None and standing.key is None:
        print_line(f"  not proven without a signature: {'; '.join(proven.unproven)}")
    standing.print_warnings()
    print_line(f"  {manifest.name} {manifest.version} for {manifest.target}, sha256 {result.sha256}")
    print_line(f"  status {_status(manifest.status)}")
    for line in proven.checked if proven is not None else (f"files: {len(manifest.files)}, every byte",):
        print_line(f"  holds  {line}")
    if proven is not None and proven.accumulators:
        counts = ", ".join(f"{number} {proof}" for proof, number in sorted(proven.accumulators.items()))
        print_line(f"  stated, not computed again: accumulators of other layers: {counts}")


@dataclass(frozen=True)
class _Standing:
    """What vouches for a package. key: the public key that signed it, none if nobody was asked for. key_id: its id.

    unchecked: a signature beside the package that no key was given for. newer: an accepted version that is newer.
    """

    manifest: Manifest
    key: Path | None
    key_id: str
    unchecked: Path | None
    newer: str | None

    @property
    def signed(self) -> str:
        """In words."""
        return f"signed by the key in {self.key}" if self.key is not None else "not signed by a key you trust"

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "signature_checked": self.key is not None,
            "key_id": self.key_id or None,
            "signature_not_checked": None if self.unchecked is None else str(self.unchecked),
            "newer_accepted": self.newer,
        }

    def print_warnings(self) -> None:
        """What the user should know before anything else."""
        from nnkit.trust import config_folder

        if self.unchecked is not None:
            settings = config_folder() / "config.yaml"
            print_line(f"  NOT CHECKED: {self.unchecked}: name its public key, --key FILE or `signer` in {settings}")
        if self.newer is not None:
            version = self.manifest.version
            print_line(f"  OLDER: you have accepted {self.manifest.name} {self.newer}, and this is {version}")

    def accept(self) -> None:
        """Remember the release, so that an older one is noticed."""
        from nnkit.trust.accepted import Release, accept

        accept(Release(self.manifest.name, self.manifest.target, self.manifest.version, self.key_id))


def _signer(key: Path | None) -> Path | None:
    """The public key that must have signed: the one given, or that of the user's configuration."""
    from nnkit.trust import user_settings

    return key or user_settings().signer


def _standing(result: VerifyResult, key: Path | None) -> _Standing:
    """Raises as `verify_signature` where a key is given and does not vouch for the package."""
    from nnkit.package import verify_signature
    from nnkit.reading import read_bytes

    key = _signer(key)
    key_id = "" if key is None else verify_signature(result, read_bytes(key, what="the public key"))
    return _standing_of(result.path, result.manifest, key, key_id)


def _standing_of(package: Path, manifest: Manifest, key: Path | None, key_id: str) -> _Standing:
    from nnkit.package import signature_path
    from nnkit.trust.accepted import Release, newer_accepted

    beside = signature_path(package)
    unchecked = beside if key is None and (beside.exists() or beside.is_symlink()) else None
    newer = newer_accepted(Release(manifest.name, manifest.target, manifest.version, key_id))
    return _Standing(manifest, key, key_id, unchecked, newer)


def extract_command(package: Path, folder: Path, key: Path | None = None, *, json: bool) -> None:
    """Verify and unpack; the folder holds all of an intact package, or is left as it was."""
    from nnkit.package import extract_package, verify_package

    result = verify_package(package)
    standing = _standing(result, key)
    manifest = extract_package(package, folder, result)
    standing.accept()
    if json:
        content = {"package": str(package), "folder": str(folder), "files": len(manifest.files)}
        print_json(content | standing.as_json())
        return
    print_line(f"{package}: intact, {standing.signed}")
    standing.print_warnings()
    print_line(f"{folder}: {len(manifest.files)} files of {manifest.name} {manifest.version} for {manifest.target}")


def _field(value: Any, key: str) -> Any:
    """A field of what another version of nnkit, or another program, may have written otherwise."""
    return value.get(key) if isinstance(value, Mapping) else None


def _bytes(use: Any, key: str) -> str:
    size = _field(use, key)
    return byte_count(size) if isinstance(size, int) else "?"


def _status(status: str) -> str:
    return "UNPROVEN: nothing has run this artifact" if status == "unproven" else status


def _tensor(tensor: Any) -> str:
    shape = _field(tensor, "shape")
    sides = "x".join(str(side) for side in shape) if isinstance(shape, list) else "?"
    return f"{_field(tensor, 'name') or '?'} {sides} {_field(tensor, 'format') or '?'}"


def inspect_command(package: Path, key: Path | None = None, *, json: bool) -> None:
    """What the manifest says. Where a key is asked for, the whole package is read and its signature checked first."""
    from dataclasses import asdict

    from nnkit.package import inspect_package, verify_package

    if _signer(key) is None:
        manifest = inspect_package(package)
        standing = _standing_of(package, manifest, None, "")
    else:
        result = verify_package(package)
        manifest, standing = result.manifest, _standing(result, key)
    if json:
        print_json(asdict(manifest) | standing.as_json())
        return
    print_line(f"{manifest.name} {manifest.version} for {manifest.target}, made by nnkit {manifest.nnkit}")
    print_line(f"  {standing.signed}" + ("" if standing.key else ": its own word follows, files were not read"))
    standing.print_warnings()
    print_line(f"  status  {_status(manifest.status)}")
    for line in manifest.notes.splitlines():
        print_line(f"  notes   {line}")
    for title, tensors in (("input", manifest.inputs), ("output", manifest.outputs)):
        for tensor in tensors:
            print_line(f"  {title:<8}{_tensor(tensor)}")
    for region, use in manifest.memory.items():
        of = "" if _field(use, "limited") is False else f" of {_bytes(use, 'capacity_bytes')}"
        print_line(f"  {region:<8}{_bytes(use, 'peak_bytes')}{of}")
    cosine = _field(manifest.accuracy.get("float_vs_program"), "cosine")
    if isinstance(cosine, int | float):
        print_line(f"  cosine  {cosine:.6f} against float")
    for name, record in manifest.files.items():
        print_line(f"  {record.bytes:>10,} B  {record.sha256[:16]}  {name}")

"""`nnkit package build|verify|extract|inspect`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nnkit.commands.common import byte_count, print_json
from nnkit.terminal import print_line


def build_command(build: Path, out: Path | None, *, json: bool) -> None:
    """Pack a verified build again."""
    from nnkit.package import build_package

    path = build_package(build, out, manifest_extra={})
    size = path.stat().st_size
    if json:
        print_json({"package": str(path), "bytes": size})
    else:
        print_line(f"{path} ({byte_count(size)})")


def verify_command(package: Path, key: Path | None, *, json: bool, proofs: bool = False) -> None:
    """Check every byte; with a public key, or a signer in the user's configuration, also the detached signature.

    proofs: check again what the package says is proven.
    """
    from nnkit.package import verify_package
    from nnkit.package.proofs import check_proofs

    result = verify_package(package)
    signed = _check_signer(package, key)
    proven = check_proofs(package) if proofs else None
    if json:
        told: dict[str, Any] = {"package": str(package), "sha256": result.sha256, "intact": True}
        told["signature_checked"] = signed
        if proven is not None:
            told["proofs"] = {"checked": list(proven.checked), "accumulators": dict(proven.accumulators)}
        print_json(told)
        return
    manifest = result.manifest
    print_line(f"{package}: intact, {len(manifest.files)} files" + (", signature valid" if signed else ""))
    print_line(f"  {manifest.name} {manifest.version} for {manifest.target}, sha256 {result.sha256}")
    print_line(f"  status {_status(manifest.status)}")
    for line in proven.checked if proven is not None else ():
        print_line(f"  holds  {line}")
    if proven is not None and proven.accumulators:
        counts = ", ".join(f"{number} {proof}" for proof, number in sorted(proven.accumulators.items()))
        print_line(f"  stated, not computed again: accumulators of other layers: {counts}")


def _check_signer(package: Path, key: Path | None) -> bool:
    """Whether a signature was asked for, which then holds. The user's configuration may name the signer of all."""
    from nnkit.package import verify_signature
    from nnkit.reading import read_bytes
    from nnkit.trust import user_settings

    key = key or user_settings().signer
    if key is not None:
        verify_signature(package, read_bytes(key, what="the public key"))
    return key is not None


def extract_command(package: Path, folder: Path, *, json: bool) -> None:
    """Verify and unpack; the folder holds all of an intact package, or is left as it was."""
    from nnkit.package import extract_package

    _check_signer(package, None)
    manifest = extract_package(package, folder)
    if json:
        print_json({"package": str(package), "folder": str(folder), "files": len(manifest.files)})
    else:
        print_line(
            f"{folder}: {len(manifest.files)} files of {manifest.name} {manifest.version} for {manifest.target}"
        )


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


def inspect_command(package: Path, *, json: bool) -> None:
    """What the manifest says."""
    from dataclasses import asdict

    from nnkit.package import inspect_package

    manifest = inspect_package(package)
    if json:
        print_json(asdict(manifest))
        return
    print_line(f"{manifest.name} {manifest.version} for {manifest.target}, made by nnkit {manifest.nnkit}")
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

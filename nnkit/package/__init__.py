"""Release packages: one reproducible archive a build, with a manifest, verified to the last byte."""

from __future__ import annotations

from nnkit.package.archive import VerifyResult, extract_package, inspect_package, verify_package, write_archive
from nnkit.package.build import build_package
from nnkit.package.manifest import FileRecord, Manifest
from nnkit.package.signature import read_private_key, sign_package, signature_path, verify_signature

__all__ = [
    "FileRecord",
    "Manifest",
    "VerifyResult",
    "build_package",
    "extract_package",
    "inspect_package",
    "read_private_key",
    "sign_package",
    "signature_path",
    "verify_package",
    "verify_signature",
    "write_archive",
]

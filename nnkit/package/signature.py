"""Detached Ed25519 signatures of packages, in `<package>.sig` beside the package.

Signed is a fixed text followed by the SHA-256 of the whole archive. Ed25519 is deterministic (RFC 8032): the same
package and key give the same signature file. A signature proves something only against a public key that the user
already trusts; the one named in the file tells merely which to look for.
"""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.errors import GateFailedError, UserFileError
from nnkit.output_file import write_output
from nnkit.package.archive import VerifyResult, verify_package
from nnkit.package.contradiction import UnreadableError
from nnkit.package.envelope import is_signed_by, key_id, read_envelope
from nnkit.package.manifest import FORMAT
from nnkit.package.provenance import PROVENANCE_NAME
from nnkit.reading import open_regular

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

PASSWORD_VARIABLE = "NNKIT_KEY_PASSWORD"
"""Holds the password of an encrypted private key: recipes and packages never do."""

SUFFIX = ".sig"
_CONTEXT = b"nnkit package signature 1\n"
_MAX_BYTES = 4096


def signature_path(package: Path) -> Path:
    """Where the signature of a package lies: `<package>.sig`."""
    return package.with_name(package.name + SUFFIX)


def sign_package(path: Path, key: Ed25519PrivateKey) -> Path:
    """Verifies the package, signs it and writes `<package>.sig`; returns its path.

    Raises UserFileError where the file cannot be written; and as `verify_package`.
    """
    sha256 = verify_package(path).sha256
    signature = key.sign(_message(sha256))
    out = signature_path(path)
    write_output(out, _signature_file(_raw(key.public_key()), sha256, signature), sent=[path.parent])
    return out


def verify_signature(verified: VerifyResult, public_key_pem: bytes) -> str:
    """Verifies the signature of an intact package, and that of its provenance, against a public Ed25519 key (PEM).

    Returns the key's id. Raises UserFileError where the key or the signature file cannot be read, GateFailedError
    where a signature was changed, is of another package, or another key signed.
    """
    from cryptography.exceptions import InvalidSignature

    key = _public_key(public_key_pem)
    sha256 = verified.sha256
    where = signature_path(verified.path)
    content = _read_signature_file(where)
    public = _raw(key)
    if content["key"] != base64.b64encode(public).decode("ascii"):
        raise GateFailedError(
            f"another key signed this package: {content['key']}",
            where=str(where),
            remedy="check with the publisher which key signs its releases",
        )
    if content["sha256"] != sha256:
        raise GateFailedError(
            "the signature is of another package", where=str(where), remedy="get package and signature together"
        )
    try:
        key.verify(base64.b64decode(content["signature"]), _message(sha256))
    except InvalidSignature as error:
        raise GateFailedError(
            "the signature does not hold", where=str(where), remedy="get package and signature again"
        ) from error
    _verify_provenance(verified, key)
    return key_id(key)


def _verify_provenance(verified: VerifyResult, key: Ed25519PublicKey) -> None:
    """Packages of older formats have provenance without an envelope."""
    data = verified.documents.get(PROVENANCE_NAME)
    if data is None or verified.manifest.format != FORMAT:
        return
    where = f"{verified.path}: {PROVENANCE_NAME}"
    try:
        envelope = read_envelope(PROVENANCE_NAME, data)
    except UnreadableError as error:
        raise GateFailedError(error.reason, where=where, remedy="ask who released the package") from error
    if not is_signed_by(envelope, key):
        raise GateFailedError(
            "the provenance is not signed by the key that signed the package",
            where=where,
            remedy="let the publisher pack the build again with the key: nnkit package build BUILD --key FILE",
        )


def _message(sha256: str) -> bytes:
    return _CONTEXT + bytes.fromhex(sha256)


def _signature_file(public: bytes, sha256: str, signature: bytes) -> bytes:
    """The one form of a signature file: any other bytes are refused."""
    content = {
        "algorithm": "ed25519",
        "format": 1,
        "key": base64.b64encode(public).decode("ascii"),
        "sha256": sha256,
        "signature": base64.b64encode(signature).decode("ascii"),
    }
    return json.dumps(content, indent=2).encode("ascii") + b"\n"


def _read_signature_file(path: Path) -> dict[str, Any]:
    try:
        with open_regular(path) as stream:
            data = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UserFileError(
            f"the signature cannot be read: {error.strerror or error}",
            where=str(path),
            remedy="put the publisher's signature, a file of this name, beside the package",
        ) from error
    try:
        content = json.loads(data.decode("ascii"))
        raw = [base64.b64decode(content[key], validate=True) for key in ("key", "signature")]
        intact = _signature_file(raw[0], content["sha256"], raw[1]) == data
    except (ValueError, TypeError, KeyError, RecursionError):
        intact = False
    if not intact:
        raise GateFailedError(
            "the signature file was changed: it is not in the form that nnkit writes",
            where=str(path),
            remedy="get package and signature again",
        )
    return dict(content)


def read_private_key(key_pem: bytes) -> Ed25519PrivateKey:
    """A private Ed25519 key (PEM). One that is encrypted is opened with the password in `NNKIT_KEY_PASSWORD`.

    Raises UserFileError where it is none, or the password is missing or wrong.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    where, remedy = "the signing key", "make one with: openssl genpkey -algorithm ed25519 -out release.pem"
    password = os.environ.get(PASSWORD_VARIABLE) or None
    try:
        try:
            key = load_pem_private_key(key_pem, None)
        except TypeError as error:  # how the library reports that a password is needed
            if password is None:
                raise UserFileError(
                    "is encrypted, and no password is given",
                    where=where,
                    remedy=f"set the environment variable {PASSWORD_VARIABLE} to its password",
                ) from error
            key = _opened(key_pem, password)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise UserFileError("is not a private key in PEM", where=where, remedy=remedy) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise UserFileError("is not an Ed25519 key", where=where, remedy=remedy)
    return key


def _opened(key_pem: bytes, password: str) -> PrivateKeyTypes:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        return load_pem_private_key(key_pem, password.encode())
    except ValueError as error:
        raise UserFileError(
            f"is encrypted, and the password in {PASSWORD_VARIABLE} does not open it",
            where="the signing key",
            remedy=f"set {PASSWORD_VARIABLE} to the password with which the key was made",
        ) from error


def _public_key(key_pem: bytes) -> Ed25519PublicKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    remedy = "write it with: openssl pkey -in release.pem -pubout -out release.pub.pem"
    try:
        key = load_pem_public_key(key_pem)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise UserFileError("is not a public key in PEM", where="--key", remedy=remedy) from error
    if not isinstance(key, Ed25519PublicKey):
        raise UserFileError("is not an Ed25519 key", where="--key", remedy=remedy)
    return key


def _raw(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes_raw()

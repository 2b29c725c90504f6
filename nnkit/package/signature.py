"""Detached Ed25519 signatures of packages, in `<package>.sig` beside the package.

Signed is a fixed text followed by the SHA-256 of the whole archive. Ed25519 is deterministic (RFC 8032): the same
package and key give the same signature file. A signature proves something only against a public key that the user
already trusts; the one named in the file tells merely which to look for.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.errors import GateFailedError, UserFileError
from nnkit.output_file import write_output
from nnkit.package.archive import verify_package
from nnkit.reading import open_regular

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

SUFFIX = ".sig"
_CONTEXT = b"nnkit package signature 1\n"
_MAX_BYTES = 4096


def signature_path(package: Path) -> Path:
    """Where the signature of a package lies: `<package>.sig`."""
    return package.with_name(package.name + SUFFIX)


def sign_package(path: Path, key_pem: bytes, password: bytes | None = None) -> Path:
    """Verifies the package, signs it with a private Ed25519 key (PEM) and writes `<package>.sig`; returns its path.

    Raises UserFileError where the key cannot be used or the file cannot be written; and as `verify_package`.
    """
    key = _private_key(key_pem, password)
    sha256 = verify_package(path).sha256
    signature = key.sign(_message(sha256))
    out = signature_path(path)
    write_output(out, _signature_file(_raw(key.public_key()), sha256, signature), sent=[path.parent])
    return out


def check_private_key(key_pem: bytes) -> None:
    """Raises UserFileError where `sign_package` could not use the key."""
    _private_key(key_pem, None)


def verify_signature(path: Path, public_key_pem: bytes) -> None:
    """Verifies the package and its signature against a public Ed25519 key (PEM).

    Raises UserFileError where the key or the signature file cannot be read, GateFailedError where the package or its
    signature was changed, or another key signed; and as `verify_package`.
    """
    from cryptography.exceptions import InvalidSignature

    key = _public_key(public_key_pem)
    sha256 = verify_package(path).sha256
    where = signature_path(path)
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


def _private_key(key_pem: bytes, password: bytes | None) -> Ed25519PrivateKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    remedy = "make one with: openssl genpkey -algorithm ed25519 -out release.pem"
    try:
        key = load_pem_private_key(key_pem, password)
    except TypeError as error:  # how the library reports a password that is missing or not needed
        raise UserFileError(
            "the key is encrypted, or a password was given for one that is not", where="release.key", remedy=remedy
        ) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise UserFileError("is not a private key in PEM", where="release.key", remedy=remedy) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise UserFileError("is not an Ed25519 key", where="release.key", remedy=remedy)
    return key


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

"""DSSE envelopes: a payload with its type and signatures of both (github.com/secure-systems-lab/dsse, version 1).

Signed is `PAE(type, payload)`, so that a payload cannot be taken for one of another type. The `keyid` of a signature
says which key to look for, and proves nothing: it is the SHA-256 of the public key in DER.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nnkit.package.contradiction import UnreadableError
from nnkit.package.evidence import json_object
from nnkit.package.manifest import json_bytes

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

PAYLOAD_TYPE = "application/vnd.in-toto+json"


@dataclass(frozen=True)
class Envelope:
    """payload: as signed. signatures: (key id, signature), none of which was checked."""

    payload: bytes
    signatures: Sequence[tuple[str, bytes]]


def pre_authentication_encoding(payload_type: str, payload: bytes) -> bytes:
    """PAE: the bytes that are signed."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def envelope(payload: bytes, key: Ed25519PrivateKey | None) -> bytes:
    """An in-toto statement in its envelope, signed where there is a key; Ed25519 gives the same bytes every time."""
    signatures = []
    if key is not None:
        signature = key.sign(pre_authentication_encoding(PAYLOAD_TYPE, payload))
        signatures.append({"keyid": key_id(key.public_key()), "sig": base64.b64encode(signature).decode()})
    content = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": signatures,
    }
    return json_bytes(content, where="the envelope")


def read_envelope(file: str, data: bytes) -> Envelope:
    """Raises UnreadableError for anything but an envelope of an in-toto statement. file: for messages."""
    content = json_object(file, data)
    if content.get("payloadType") != PAYLOAD_TYPE:
        raise UnreadableError(file, f"its payloadType is {content.get('payloadType')!a}, not {PAYLOAD_TYPE}")
    try:
        payload = _decoded(content["payload"])
        signatures = [(str(each["keyid"]), _decoded(each["sig"])) for each in content["signatures"]]
    except (ValueError, TypeError, KeyError) as error:
        raise UnreadableError(file, "it is no DSSE envelope") from error
    return Envelope(payload, signatures)


def is_signed_by(found: Envelope, key: Ed25519PublicKey) -> bool:
    """Whether one of its signatures is this key's, and holds."""
    from cryptography.exceptions import InvalidSignature

    message = pre_authentication_encoding(PAYLOAD_TYPE, found.payload)
    for _, signature in found.signatures:
        try:
            key.verify(signature, message)
        except InvalidSignature:
            continue
        return True
    return False


def key_id(key: Ed25519PublicKey) -> str:
    """SHA-256 of the public key in DER, as `openssl pkey -pubin -outform DER | sha256sum` gives it."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def _decoded(text: Any) -> bytes:
    if not isinstance(text, str):
        raise TypeError("not a text")
    return base64.b64decode(text, validate=True)

"""DSSE envelopes: the specification's own example and OpenSSL as independent truths."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from nnkit.package.contradiction import UnreadableError
from nnkit.package.envelope import envelope, is_signed_by, pre_authentication_encoding, read_envelope

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32))
STATEMENT = b'{"_type": "https://in-toto.io/Statement/v1"}'
TYPE = b"application/vnd.in-toto+json"


def test_what_is_signed_is_the_example_of_the_specification() -> None:
    """github.com/secure-systems-lab/dsse, protocol.md: "Test vectors"."""
    signed = pre_authentication_encoding("http://example.com/HelloWorld", b"hello world")
    assert signed == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


def test_openssl_finds_the_signature_good(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    content = json.loads(envelope(STATEMENT, KEY))
    assert content["payloadType"] == TYPE.decode()
    assert base64.b64decode(content["payload"]) == STATEMENT
    (signature,) = content["signatures"]
    (tmp_path / "raw.sig").write_bytes(base64.b64decode(signature["sig"]))
    (tmp_path / "message").write_bytes(b"DSSEv1 %d %b %d %b" % (len(TYPE), TYPE, len(STATEMENT), STATEMENT))
    public = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "key.pem").write_bytes(public)
    command = "openssl pkeyutl -verify -rawin -pubin -inkey key.pem -sigfile raw.sig -in message"
    subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True, timeout=30)
    der = subprocess.run(
        ["openssl", "pkey", "-pubin", "-outform", "DER"], input=public, check=True, capture_output=True, timeout=30
    ).stdout
    assert signature["keyid"] == hashlib.sha256(der).hexdigest()


def test_a_library_of_others_finds_the_signature_good() -> None:
    """in-toto's own reader of envelopes."""
    dsse = pytest.importorskip("securesystemslib.dsse", reason="securesystemslib is not installed")
    signer = pytest.importorskip("securesystemslib.signer")
    found = dsse.Envelope.from_dict(json.loads(envelope(STATEMENT, KEY)))
    key = signer.SSlibKey.from_crypto(KEY.public_key(), keyid=next(iter(found.signatures)))
    assert list(found.verify([key], 1)) == [key.keyid]
    refused = pytest.importorskip("securesystemslib.exceptions").VerificationError
    with pytest.raises(refused, match="Found: 0"):
        dsse.Envelope.from_dict(json.loads(envelope(STATEMENT, None))).verify([key], 1)


def test_the_signature_holds_for_one_key_and_one_payload() -> None:
    found = read_envelope("p", envelope(STATEMENT, KEY))
    assert is_signed_by(found, KEY.public_key())
    assert not is_signed_by(found, OTHER.public_key())
    assert envelope(STATEMENT, KEY) == envelope(STATEMENT, KEY)
    content = json.loads(envelope(STATEMENT, KEY))
    content["payload"] = base64.b64encode(STATEMENT.replace(b"v1", b"v2")).decode()
    assert not is_signed_by(read_envelope("p", json.dumps(content).encode()), KEY.public_key())
    assert not is_signed_by(read_envelope("p", envelope(STATEMENT, None)), KEY.public_key())


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (STATEMENT, "its payloadType is None"),
        (envelope(STATEMENT, KEY).replace(TYPE, b"text/plain"), "its payloadType is 'text/plain'"),
        (envelope(STATEMENT, KEY).replace(b'"sig"', b'"signature"'), "no DSSE envelope"),
        (envelope(STATEMENT, KEY).replace(b'"payload": "', b'"payload": "*'), "no DSSE envelope"),
        (b"[]", "not a JSON object"),
    ],
)
def test_what_is_no_envelope_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(UnreadableError, match=reason):
        read_envelope("provenance.intoto.json", data)

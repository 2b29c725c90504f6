"""Signatures: OpenSSL's verdict as the independent one, every changed byte as the attack."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from nnkit.errors import GateFailedError, UserFileError
from nnkit.package import read_private_key, sign_package, signature_path, verify_package, verify_signature


def private_pem(key, password: bytes | None = None) -> bytes:
    encryption = BestAvailableEncryption(password) if password else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


def public_pem(key) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32))


def test_a_signature_holds_and_is_deterministic(package: Path) -> None:
    path = sign_package(package, KEY)
    assert path == signature_path(package) == package.with_name("gap8_reid-1.2.0-gap8.nnpkg.sig")
    first = path.read_bytes()
    verify_signature(verify_package(package), public_pem(KEY))
    assert sign_package(package, KEY).read_bytes() == first


def test_openssl_agrees(package: Path, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    content = json.loads(sign_package(package, KEY).read_bytes())
    (tmp_path / "key.pem").write_bytes(public_pem(KEY))
    (tmp_path / "raw.sig").write_bytes(base64.b64decode(content["signature"]))
    digest = bytes.fromhex(verify_package(package).sha256)
    (tmp_path / "message").write_bytes(b"nnkit package signature 1\n" + digest)
    command = "openssl pkeyutl -verify -rawin -pubin -inkey key.pem -sigfile raw.sig -in message"
    done = subprocess.run(command.split(), cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr


def test_every_changed_byte_of_the_signature_file_is_found(package: Path) -> None:
    path = sign_package(package, KEY)
    good = path.read_bytes()
    for position in range(len(good)):
        data = bytearray(good)
        data[position] ^= 1
        path.write_bytes(data)
        with pytest.raises(GateFailedError):
            verify_signature(verify_package(package), public_pem(KEY))
    for data in (good + b"\n", good[:-1], b"", b"{}", b"[" * 4096):
        path.write_bytes(data)
        with pytest.raises(GateFailedError, match="not in the form"):
            verify_signature(verify_package(package), public_pem(KEY))


def test_another_key_is_refused(package: Path) -> None:
    sign_package(package, OTHER)
    with pytest.raises(GateFailedError, match="another key signed"):
        verify_signature(verify_package(package), public_pem(KEY))


def test_a_forged_owner_is_refused(package: Path) -> None:
    """The signature is another key's, but the file names the trusted one."""
    path = sign_package(package, OTHER)
    trusted = KEY.public_key().public_bytes_raw()
    content = {**json.loads(path.read_bytes()), "key": base64.b64encode(trusted).decode()}
    path.write_text(json.dumps(content, indent=2) + "\n")
    with pytest.raises(GateFailedError, match="the signature does not hold"):
        verify_signature(verify_package(package), public_pem(KEY))


def test_the_signature_of_another_package_is_refused(package: Path, manifest, tmp_path: Path) -> None:
    from nnkit.package import write_archive

    sign_package(package, KEY)
    write_archive({"artifact/other": b""}, manifest, package)
    with pytest.raises(GateFailedError, match="of another package"):
        verify_signature(verify_package(package), public_pem(KEY))


def test_a_damaged_package_is_not_signed(package: Path) -> None:
    package.write_bytes(package.read_bytes() + b"\0")
    with pytest.raises(GateFailedError, match="1 bytes follow"):
        sign_package(package, KEY)
    assert not signature_path(package).exists()


def test_a_missing_signature_is_told(package: Path) -> None:
    with pytest.raises(UserFileError, match="cannot be read"):
        verify_signature(verify_package(package), public_pem(KEY))


@pytest.mark.parametrize(
    ("pem", "password", "words", "remedy"),
    [
        (b"hello", None, "not a private key", "openssl genpkey"),
        (public_pem(KEY), None, "not a private key", "openssl genpkey"),
        (private_pem(ec.derive_private_key(7, ec.SECP256R1())), None, "not an Ed25519 key", "openssl genpkey"),
        (private_pem(KEY, b"secret"), None, "no password is given", "NNKIT_KEY_PASSWORD"),
        (private_pem(KEY, b"secret"), "", "no password is given", "NNKIT_KEY_PASSWORD"),
        (private_pem(KEY, b"secret"), "wrong", "does not open it", "NNKIT_KEY_PASSWORD"),
    ],
)
def test_bad_private_keys_are_refused(
    pem: bytes, password: str | None, words: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_password(monkeypatch, password)
    with pytest.raises(UserFileError, match=words) as error:
        read_private_key(pem)
    assert remedy in error.value.remedy


def give_password(monkeypatch: pytest.MonkeyPatch, password: str | None) -> None:
    monkeypatch.delenv("NNKIT_KEY_PASSWORD", raising=False)
    if password is not None:
        monkeypatch.setenv("NNKIT_KEY_PASSWORD", password)


def test_a_key_with_a_password_signs_as_it_does_without(monkeypatch: pytest.MonkeyPatch) -> None:
    give_password(monkeypatch, "secret \u00e9")
    encrypted = private_pem(KEY, "secret \u00e9".encode())
    assert b"ENCRYPTED" in encrypted
    assert read_private_key(encrypted).private_bytes_raw() == KEY.private_bytes_raw()
    assert read_private_key(private_pem(KEY)).private_bytes_raw() == KEY.private_bytes_raw()


def test_openssl_encrypts_a_key_that_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    command = "openssl genpkey -algorithm ed25519 -aes-256-cbc -pass pass:open-sesame -out k.pem"
    subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True, timeout=30)
    public = "openssl pkey -in k.pem -passin pass:open-sesame -pubout"
    printed = subprocess.run(public.split(), cwd=tmp_path, check=True, capture_output=True, timeout=30).stdout
    give_password(monkeypatch, "open-sesame")
    assert public_pem(read_private_key((tmp_path / "k.pem").read_bytes())) == printed


@pytest.mark.parametrize(
    ("pem", "words"),
    [
        (b"", "not a public key"),
        (private_pem(KEY), "not a public key"),
        (public_pem(ec.derive_private_key(7, ec.SECP256R1())), "not an Ed25519 key"),
    ],
)
def test_bad_public_keys_are_refused(package: Path, pem: bytes, words: str) -> None:
    sign_package(package, KEY)
    with pytest.raises(UserFileError, match=words):
        verify_signature(verify_package(package), pem)

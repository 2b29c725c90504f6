"""Who vouches for a package, as the commands report it: keys, signatures that nobody checked, older releases."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from small_project import RECIPE, make_build, write_project

from nnkit import pipeline
from nnkit.c.host_compiler import host_compiler
from nnkit.commands.package import build_command, extract_command, inspect_command, verify_command
from nnkit.errors import GateFailedError, RecipeError, UserFileError
from nnkit.package import Manifest, build_package, sign_package, signature_path, verify_package, write_archive
from nnkit.package.envelope import envelope
from nnkit.package.provenance import PROVENANCE_NAME

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32))
UNSIGNED = "not signed by a key you trust"


def public(folder: Path, key: Ed25519PrivateKey = KEY, name: str = "release.pub.pem") -> Path:
    path = folder / name
    path.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return path


def private(path: Path, password: bytes | None = None) -> Path:
    encryption = BestAvailableEncryption(password) if password else NoEncryption()
    path.write_bytes(KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    return path


def set_signer(config: Path, key: Path) -> None:
    config.mkdir(exist_ok=True)
    (config / "config.yaml").write_text(f"signer: {key}\n")


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_the_first_line_says_that_nobody_vouches(
    package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verify_command(package, None, json=False)
    assert printed(capsys)[0] == f"{package}: intact, {UNSIGNED}"
    extract_command(package, tmp_path / "there", json=False)
    assert printed(capsys)[0] == f"{package}: intact, {UNSIGNED}"
    inspect_command(package, json=False)
    assert UNSIGNED in printed(capsys)[1]


@pytest.mark.parametrize("command", ["verify", "extract", "inspect"])
def test_the_signer_of_the_configuration_must_have_signed(
    command: str, package: Path, config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    set_signer(config, public(tmp_path))

    def run(json_output: bool = False) -> None:
        if command == "verify":
            verify_command(package, None, json=json_output)
        elif command == "extract":
            extract_command(package, tmp_path / f"there{json_output}", json=json_output)
        else:
            inspect_command(package, json=json_output)

    with pytest.raises(UserFileError, match="the signature cannot be read"):
        run()
    sign_package(package, OTHER)
    with pytest.raises(GateFailedError, match="another key signed"):
        run()
    assert printed(capsys) == []
    assert not (tmp_path / "thereFalse").exists()
    sign_package(package, KEY)
    run()
    assert f"signed by the key in {tmp_path / 'release.pub.pem'}" in "\n".join(printed(capsys)[:2])
    run(json_output=True)
    content = json.loads(capsys.readouterr().out)
    assert content["signature_checked"] is True
    assert len(content["key_id"]) == 64


@pytest.mark.parametrize("command", ["verify", "extract", "inspect"])
def test_a_signature_that_is_not_checked_is_reported(
    command: str, package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    signature_path(package).write_text("anything")
    if command == "verify":
        verify_command(package, None, json=False)
    elif command == "extract":
        extract_command(package, tmp_path / "there", json=False)
    else:
        inspect_command(package, json=False)
    lines = printed(capsys)
    (line,) = [line for line in lines if "NOT CHECKED" in line]
    assert str(signature_path(package)) in line
    assert "--key" in line
    verify_command(package, None, json=True)
    assert json.loads(capsys.readouterr().out)["signature_not_checked"] == str(signature_path(package))


def test_a_release_older_than_an_accepted_one_is_reported(
    manifest: Manifest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newer = write_archive({"a": b""}, replace(manifest, version="1.3.0"), tmp_path / "newer.nnpkg")
    older = write_archive({"a": b""}, manifest, tmp_path / "older.nnpkg")
    inspect_command(newer, json=False)
    verify_command(older, None, json=False)
    assert "OLDER" not in capsys.readouterr().out  # what was looked at is not accepted
    verify_command(newer, None, json=False)
    assert "OLDER" not in capsys.readouterr().out
    told = "OLDER: you have accepted gap8_reid 1.3.0, and this is 1.2.0"
    verify_command(older, None, json=False)
    assert printed(capsys)[1].strip() == told
    extract_command(older, tmp_path / "there", json=False)
    assert printed(capsys)[1].strip() == told
    inspect_command(older, json=False)
    assert printed(capsys)[2].strip() == told
    verify_command(older, None, json=True)
    assert json.loads(capsys.readouterr().out)["newer_accepted"] == "1.3.0"


def test_the_provenance_must_be_signed_by_the_same_key(manifest: Manifest, tmp_path: Path) -> None:
    path = tmp_path / "x.nnpkg"
    for signer, holds in ((None, False), (OTHER, False), (KEY, True)):
        sign_package(write_archive({PROVENANCE_NAME: envelope(b"{}", signer)}, manifest, path), KEY)
        if holds:
            verify_command(path, public(tmp_path), json=True)
            continue
        with pytest.raises(GateFailedError, match="the provenance is not signed by the key") as error:
            verify_command(path, public(tmp_path), json=True)
        assert error.value.where == f"{path}: {PROVENANCE_NAME}"


def test_a_package_that_is_exchanged_after_its_signature_was_checked_is_not_extracted(
    package: Path, manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nnkit.package import archive

    sign_package(package, KEY)

    def exchange(dest: Path) -> None:
        write_archive({"artifact/evil.c": b""}, manifest, package)

    monkeypatch.setattr(archive, "_check_destination", exchange)
    with pytest.raises(GateFailedError, match="exchanged"):
        extract_command(package, tmp_path / "there", public(tmp_path), json=False)
    assert not (tmp_path / "there").exists()


@pytest.mark.skipif(host_compiler() is None, reason="no C compiler")
def test_a_run_signs_package_and_provenance_with_an_encrypted_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    key = private(tmp_path / "release.pem", b"open sesame")
    recipe = RECIPE.replace("{version: 1.2.3}", "{version: 1.2.3, key: release.pem}")
    build = make_build(write_project(tmp_path, recipe))
    monkeypatch.delenv("NNKIT_KEY_PASSWORD", raising=False)
    with pytest.raises(RecipeError, match="no password is given") as error:
        pipeline.run(build, tmp_path / "out")
    assert "NNKIT_KEY_PASSWORD" in error.value.remedy
    assert not (tmp_path / "out").exists()
    monkeypatch.setenv("NNKIT_KEY_PASSWORD", "open sesame")
    folder = pipeline.run(build, tmp_path / "out").folder
    (package,) = folder.glob("*.nnpkg")
    verify_command(package, public(tmp_path), proofs=True, json=False)
    assert printed(capsys)[0] == f"{package}: intact, signed by the key in {tmp_path / 'release.pub.pem'}"
    content = package.read_bytes()
    assert b"open sesame" not in content
    assert b"PRIVATE KEY" not in content
    assert b"open sesame" not in b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    build_command(folder, tmp_path / "again.nnpkg", key, json=False)
    assert (tmp_path / "again.nnpkg").read_bytes() == content
    assert (tmp_path / "again.nnpkg.sig").read_bytes() == signature_path(package).read_bytes()
    unsigned = build_package(folder, tmp_path / "unsigned.nnpkg")
    assert verify_package(unsigned).documents[PROVENANCE_NAME] != verify_package(package).documents[PROVENANCE_NAME]
    monkeypatch.setenv("NNKIT_KEY_PASSWORD", "wrong")
    with pytest.raises(UserFileError, match="does not open it") as wrong:
        build_command(folder, tmp_path / "no.nnpkg", key, json=False)
    assert wrong.value.where == str(key)

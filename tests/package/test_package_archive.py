"""Release archives: other zip tools as the independent reader, every single-byte change as the attack."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from nnkit.errors import ExitCode, GateFailedError, NnkitError, UsageError, UserFileError
from nnkit.package import Manifest, extract_package, inspect_package, stored_zip, verify_package, write_archive
from nnkit.package.manifest import FileRecord
from nnkit.package.proofs import check_proofs


def zip_of(files: dict[str, bytes]) -> bytes:
    """An archive in the package's form with any content, also with what the writer refuses."""
    members = stored_zip.layout([(name, len(data), zlib.crc32(data)) for name, data in files.items()])
    bodies = b"".join(stored_zip.local_header(m) + files[m.name] for m in members)
    return bodies + stored_zip.directory(members)


def records_of(files: dict[str, bytes]) -> dict[str, FileRecord]:
    return {name: FileRecord(hashlib.sha256(data).hexdigest(), len(data)) for name, data in files.items()}


def test_python_reads_it_as_a_plain_zip(package: Path, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(package) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["manifest.json", *sorted(files)]
        assert {name: archive.read(name) for name in files} == files
        for info in archive.infolist():
            assert info.date_time == (1980, 1, 1, 0, 0, 0)
            assert info.compress_type == zipfile.ZIP_STORED
            assert info.external_attr >> 16 == 0o100644


def test_unzip_finds_no_fault(package: Path) -> None:
    if shutil.which("unzip") is None:
        pytest.skip("unzip is not installed")
    subprocess.run(["unzip", "-tqq", package], check=True, timeout=30)


def test_verification_finds_what_was_packed(package: Path, manifest: Manifest, files: dict[str, bytes]) -> None:
    result = verify_package(package)
    assert result.sha256 == hashlib.sha256(package.read_bytes()).hexdigest()
    assert result.size_bytes == package.stat().st_size
    assert result.manifest.files == records_of(files)
    assert replace(result.manifest, files={}).to_json() == manifest.to_json()
    assert inspect_package(package) == result.manifest


def test_same_inputs_give_the_same_bytes(tmp_path: Path, manifest: Manifest, files: dict[str, bytes]) -> None:
    on_disk = tmp_path / "weights"
    on_disk.write_bytes(files["artifact/weights.bin"])
    first = write_archive(files, manifest, tmp_path / "a.nnpkg")
    turned = {**dict(reversed(files.items())), "artifact/weights.bin": on_disk}
    second = write_archive(turned, manifest, tmp_path / "b.nnpkg")
    assert first.read_bytes() == second.read_bytes()


def test_a_large_file_is_streamed_in_chunks(tmp_path: Path, manifest: Manifest) -> None:
    large = tmp_path / "large.bin"
    large.write_bytes(bytes(range(251)) * 12_000)  # 3 MB, no multiple of the chunk
    package = write_archive({"artifact/large.bin": large}, manifest, tmp_path / "p.nnpkg")
    assert verify_package(package).manifest.files["artifact/large.bin"].bytes == 251 * 12_000
    extract_package(package, tmp_path / "out")
    assert (tmp_path / "out/artifact/large.bin").read_bytes() == large.read_bytes()


def refused(path: Path, data: bytes) -> bool:
    """Whether the package is refused, with a place, a reason and a remedy."""
    path.write_bytes(data)
    try:
        verify_package(path)
    except (UserFileError, GateFailedError) as error:
        return bool(error.reason and error.remedy) and error.where == str(path)
    return False


@pytest.mark.parametrize("mask", [0x01, 0x20])
def test_every_changed_byte_is_found(package: Path, tmp_path: Path, mask: int) -> None:
    """0x20 turns lower case into upper case: names and hexadecimal digits among them."""
    good = package.read_bytes()
    damaged = tmp_path / "damaged.nnpkg"
    missed = []
    for position in range(len(good)):
        data = bytearray(good)
        data[position] ^= mask
        if not refused(damaged, bytes(data)):
            missed.append(position)
    assert missed == []


def test_every_missing_and_every_added_byte_is_found(package: Path, tmp_path: Path) -> None:
    good = package.read_bytes()
    damaged = tmp_path / "damaged.nnpkg"
    for position in range(len(good)):
        assert refused(damaged, good[:position] + good[position + 1 :])
        assert refused(damaged, good[:position] + good[position : position + 1] + good[position:])
    assert refused(damaged, good + b"\0")
    for position in range(0, len(good), 7):
        assert refused(damaged, good[:position])


def test_rewriting_with_another_zip_tool_is_found(package: Path, tmp_path: Path) -> None:
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        buffer = io.BytesIO()
        with zipfile.ZipFile(package) as old, zipfile.ZipFile(buffer, "w", method) as new:
            for info in old.infolist():
                new.writestr(info.filename, old.read(info))
        assert refused(tmp_path / "rewritten.nnpkg", buffer.getvalue())


def test_a_consistent_change_of_a_file_is_named(tmp_path: Path, manifest: Manifest, files: dict[str, bytes]) -> None:
    """All checksums of the zip are right; only the manifest knows better."""
    manifest_bytes = replace(manifest, files=records_of(files)).to_json()
    changed = {"manifest.json": manifest_bytes, **dict(sorted(files.items())), "artifact/network.c": b"int y;\n"}
    path = tmp_path / "changed.nnpkg"
    path.write_bytes(zip_of(changed))
    with pytest.raises(GateFailedError, match=r"'artifact/network\.c' was changed"):
        verify_package(path)


def test_a_change_of_the_manifest_with_right_checksums_is_found(
    tmp_path: Path, manifest: Manifest, files: dict[str, bytes]
) -> None:
    manifest_bytes = replace(manifest, files=records_of(files)).to_json().replace(b"0.99995", b"0.99999")
    path = tmp_path / "changed.nnpkg"
    path.write_bytes(zip_of({"manifest.json": manifest_bytes, **dict(sorted(files.items()))}))
    with pytest.raises(GateFailedError, match="digest differs"):
        inspect_package(path)


@pytest.mark.parametrize(
    ("alter", "words"),
    [
        (lambda files: files.pop("report.json"), "'report.json' is in the archive or in the manifest alone"),
        (lambda files: files.update({"zzz": b""}), "'zzz' is in the archive or in the manifest alone"),
        (lambda files: files.update({"report.json": files.pop("report.json")[:-1]}), "'report.json' has 2 bytes"),
        (lambda files: files.update({"artifact/network.c": files.pop("artifact/network.c")}), "out of order"),
    ],
    ids=["missing", "added", "shorter", "order"],
)
def test_files_and_manifest_must_agree(alter, words: str, tmp_path: Path, manifest: Manifest, files) -> None:
    manifest_bytes = replace(manifest, files=records_of(files)).to_json()
    inside = {"manifest.json": manifest_bytes, **dict(sorted(files.items()))}
    alter(inside)
    path = tmp_path / "odd.nnpkg"
    path.write_bytes(zip_of(inside))
    with pytest.raises(GateFailedError) as caught:
        verify_package(path)
    assert words in caught.value.reason


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is not an nnkit package"),
        (b"hello", "is not an nnkit package"),
        (zip_of({"a.txt": b"hello"}), "is a zip file, but not an nnkit package"),
    ],
)
def test_what_is_no_package_is_refused(data: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_bytes(data)
    with pytest.raises(UserFileError, match=words) as caught:
        verify_package(path)
    assert caught.value.exit_code == ExitCode.USER


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.nnpkg", tmp_path):
        with pytest.raises(UserFileError, match="cannot be read") as caught:
            inspect_package(path)
        assert caught.value.where == str(path)


@pytest.mark.parametrize(
    "name", ["../x", "/x", "a\\b", "C:/x", "a//b", "con", "manifest.json", "Manifest.JSON", "a/\xe4", ""]
)
def test_the_writer_refuses_bad_names(name: str, tmp_path: Path, manifest: Manifest) -> None:
    with pytest.raises(UsageError):
        write_archive({name: b""}, manifest, tmp_path / "p.nnpkg")
    assert list(tmp_path.iterdir()) == []


def test_the_last_package_survives_a_failure(package: Path, manifest: Manifest, tmp_path: Path) -> None:
    before = package.read_bytes()
    with pytest.raises(UserFileError) as caught:
        write_archive({"a": b"1", "b": tmp_path / "missing"}, manifest, package)
    assert caught.value.where == str(tmp_path / "missing")
    assert package.read_bytes() == before
    assert list(tmp_path.iterdir()) == [package]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no pipes with names")
def test_a_pipe_is_neither_read_nor_replaced(manifest: Manifest, files: dict[str, bytes], tmp_path: Path) -> None:
    """Opening one waits for its other end; and a file in place of a device would break what uses the device."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for read in (verify_package, inspect_package, lambda path: extract_package(path, tmp_path / "out")):
        with pytest.raises(UserFileError, match="not a regular file"):
            read(pipe)
    with pytest.raises(UserFileError, match="not a regular file"):
        write_archive({"a": pipe}, manifest, tmp_path / "new.nnpkg")
    with pytest.raises(UserFileError, match="is a device or a pipe") as caught:
        write_archive(files, manifest, pipe)
    assert caught.value.remedy
    assert pipe.is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_link_in_place_of_the_package_is_refused(
    manifest: Manifest, files: dict[str, bytes], tmp_path: Path
) -> None:
    """It may have come with the build: what it leads to would be replaced."""
    (tmp_path / "mine").write_text("mine")
    for name, leads_to in (("link", "mine"), ("gone", "nothing"), ("loop", "loop")):
        (tmp_path / name).symlink_to(leads_to)
        with pytest.raises(UserFileError, match=f"is a link to {leads_to}"):
            write_archive(files, manifest, tmp_path / name)
    assert (tmp_path / "mine").read_text() == "mine"
    assert not (tmp_path / "nothing").exists()


def test_a_file_that_changes_while_it_is_packed_is_noticed(
    package: Path, manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = package.read_bytes()
    moving = tmp_path / "moving"
    moving.write_bytes(b"first")
    lay_out = stored_zip.layout

    def lay_out_then_change(files):
        moving.write_bytes(b"other")
        return lay_out(files)

    monkeypatch.setattr(stored_zip, "layout", lay_out_then_change)
    with pytest.raises(UserFileError, match="changed while it was being packed"):
        write_archive({"moving": moving}, manifest, package)
    assert package.read_bytes() == before


def test_extraction_gives_the_files_and_the_manifest(package: Path, tmp_path: Path, files: dict[str, bytes]) -> None:
    dest = tmp_path / "deep" / "release"
    manifest = extract_package(package, dest)
    found = {p.relative_to(dest).as_posix(): p.read_bytes() for p in dest.rglob("*") if p.is_file()}
    assert found == {"manifest.json": manifest.to_json(), **files}
    assert [p.name for p in dest.parent.iterdir()] == ["release"]  # nothing temporary is left


def test_extraction_into_an_empty_folder_works_and_into_a_used_one_does_not(package: Path, tmp_path: Path) -> None:
    dest = tmp_path / "release"
    dest.mkdir()
    extract_package(package, dest)
    (dest / "report.json").write_text("mine")
    with pytest.raises(UserFileError, match="is not an empty folder"):
        extract_package(package, dest)
    assert (dest / "report.json").read_text() == "mine"
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserFileError, match="is not an empty folder"):
        extract_package(package, link)


def test_a_damaged_package_leaves_nothing(package: Path, tmp_path: Path) -> None:
    data = bytearray(package.read_bytes())
    data[data.index(b"int x;")] ^= 1
    package.write_bytes(data)
    with pytest.raises(NnkitError):
        extract_package(package, tmp_path / "deep" / "release")
    assert list(tmp_path.iterdir()) == [package]


def test_a_package_exchanged_between_check_and_extraction_leaves_nothing(
    package: Path, tmp_path: Path, manifest: Manifest, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    from nnkit.package import archive

    verify = archive.verify_package

    def verify_then_exchange(path: Path):
        result = verify(path)
        data = bytearray(path.read_bytes())
        data[data.index(b"int x;")] ^= 1
        path.write_bytes(data)
        return result

    monkeypatch.setattr(archive, "verify_package", verify_then_exchange)
    with pytest.raises(GateFailedError, match="was changed"):
        extract_package(package, tmp_path / "release")
    assert list(tmp_path.iterdir()) == [package]


def test_another_format_is_not_called_damage(tmp_path: Path, manifest: Manifest) -> None:
    newer = write_archive({"a": b""}, replace(manifest, format=4), tmp_path / "p.nnpkg")
    with pytest.raises(UserFileError, match="format 4; this version reads formats 2 and 3"):
        verify_package(newer)


def test_an_older_format_is_read_but_cannot_be_held_to_its_proofs(tmp_path: Path, manifest: Manifest) -> None:
    """What it says is not enough: a forger would else call a package old."""
    old = write_archive({"a": b""}, replace(manifest, format=2), tmp_path / "p.nnpkg")
    assert extract_package(old, tmp_path / "release").format == inspect_package(old).format == 2
    with pytest.raises(UserFileError, match="format 2: its proofs can be checked since format 3") as error:
        check_proofs(verify_package(old))
    assert "build the package again" in error.value.remedy


def test_more_than_4_gib_are_refused_before_anything_is_written() -> None:
    with pytest.raises(stored_zip.FormatError, match="more than 4294967295 bytes"):
        stored_zip.layout([("a", 1 << 31, 0), ("b", 1 << 31, 0)])

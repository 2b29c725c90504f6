"""File names in packages: tricks are refused when writing and when reading, and never reach the disk."""

from __future__ import annotations

import hashlib
import ntpath
import zlib
from dataclasses import replace
from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nnkit.errors import GateFailedError, UserFileError
from nnkit.package import Manifest, extract_package, stored_zip, write_archive
from nnkit.package.manifest import FileRecord
from nnkit.package.paths import why_refused, why_refused_together

GOOD = [
    "a",
    "artifact/network.c",
    "artifact/.hidden",
    "a b/c(1)~[x]",
    "conduit",
    "com10",
    "nul_",
    "x" * 240,
    "a/b/c/d",
]
BAD = {
    "": "is empty",
    "/etc/passwd": "is absolute",
    "//server/share": "is absolute",
    "..": "has a part '..'",
    "a/../../b": "has a part '..'",
    "./a": "has a part '.'",
    "a//b": "has an empty part",
    "a/": "has an empty part",
    "a\\b": "holds a backslash",
    "..\\..\\b": "holds a backslash",
    "C:/x": "holds the character ':'",
    "c:x": "holds the character ':'",
    "a:stream": "holds the character ':'",
    "a\0b": r"holds the character '\x00'",
    "a\nb": r"holds the character '\n'",
    "caf\xe9": r"holds the character '\xe9'",
    "a*": "holds the character '*'",
    "CON": "device",
    "a/nul.txt": "device",
    "Com1.tar.gz": "device",
    "lpt9 .x": "device",
    "a.": "ends with a dot",
    "a ": "blank",
    " a": "blank",
    "...": "ends with a dot",
    "x" * 241: "241 characters",
}


@pytest.mark.parametrize("name", GOOD)
def test_good_names(name: str) -> None:
    assert why_refused(name) is None


@pytest.mark.parametrize(("name", "words"), BAD.items())
def test_bad_names(name: str, words: str) -> None:
    reason = why_refused(name)
    assert reason is not None
    assert words in reason


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["a", "A"], "'a' and 'A' differ only by case"),
        (["x/a", "X/b"], "the folders 'x' and 'X' differ only by case"),
        (["a", "b", "a"], "appears twice"),
        (["a", "a/b"], "'a' is both a file and a folder"),
        (["A", "a/b"], "'A' is both a file and a folder"),
    ],
)
def test_names_that_clash(names: list[str], words: str) -> None:
    assert words in (why_refused_together(names) or "")


def test_names_that_do_not_clash() -> None:
    assert why_refused_together(["a", "b/a", "b/c/a", "ab"]) is None


PARTS = st.sampled_from(["a", "B", ".", "..", "", "C:", "nul", "a\\b", "~", "x.", " ", "é", "aux.c", "\x00", "-rf"])
NAMES = st.one_of(
    st.lists(PARTS, min_size=1, max_size=5).map("/".join),
    st.text(st.characters(max_codepoint=0x2FF), max_size=12),
    st.sampled_from(GOOD),
)


def is_reserved_on_windows(path: PureWindowsPath) -> bool:
    """Python 3.13 moved the question."""
    if hasattr(ntpath, "isreserved"):
        return bool(ntpath.isreserved(path))
    return path.is_reserved()


@given(NAMES)
@settings(max_examples=400, deadline=None)
def test_an_accepted_name_stays_inside_on_every_system(name: str) -> None:
    if why_refused(name) is not None:
        return
    assert PurePosixPath(name).as_posix() == name
    windows = PureWindowsPath(name)
    assert not windows.is_absolute()
    assert (windows.drive, windows.root) == ("", "")
    assert windows.as_posix() == name
    assert ".." not in windows.parts
    assert not is_reserved_on_windows(windows)


def forged(path: Path, manifest: Manifest, files: list[tuple[str, bytes]]) -> None:
    """Writes a package that is right in all but the names of its files."""
    records = {name: FileRecord(hashlib.sha256(data).hexdigest(), len(data)) for name, data in files}
    manifest_bytes = replace(manifest, files=records).to_json()
    everything = [("manifest.json", manifest_bytes), *sorted(files)]
    members = stored_zip.layout([(name, len(data), zlib.crc32(data)) for name, data in everything])
    contents = [data for _, data in everything]
    bodies = b"".join(stored_zip.local_header(m) + data for m, data in zip(members, contents, strict=True))
    path.write_bytes(bodies + stored_zip.directory(members))


@given(names=st.lists(NAMES.filter(str.isascii), min_size=1, max_size=3))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_extraction_writes_inside_or_not_at_all(
    names: list[str], manifest: Manifest, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("jail")
    package = root / "forged.nnpkg"
    forged(package, manifest, [(name, b"content") for name in names])
    dest = root / "inner" / "dest"
    try:
        extract_package(package, dest)
    except (UserFileError, GateFailedError):
        assert [p.name for p in root.iterdir()] == ["forged.nnpkg"]
    else:
        found = {p.relative_to(dest).as_posix() for p in dest.rglob("*") if p.is_file()}
        assert found == {*names, "manifest.json"}
        assert sorted(p.name for p in root.iterdir()) == ["forged.nnpkg", "inner"]
        assert [p.name for p in dest.parent.iterdir()] == ["dest"]


@pytest.mark.parametrize("name", [name for name in BAD if name.isascii()])
def test_forged_names_are_called_untrustworthy(name: str, manifest: Manifest, tmp_path: Path) -> None:
    package = tmp_path / "forged.nnpkg"
    forged(package, manifest, [(name, b"content")])
    with pytest.raises(UserFileError, match="the package holds a name that") as caught:
        extract_package(package, tmp_path / "dest")
    assert caught.value.remedy == "do not trust this package"
    assert [p.name for p in tmp_path.iterdir()] == ["forged.nnpkg"]


@pytest.mark.parametrize("names", [["a", "A"], ["a", "a/b"], ["d/x", "D/y"], ["a", "a"], ["MANIFEST.JSON"]])
def test_forged_clashes_are_refused(names: list[str], manifest: Manifest, tmp_path: Path) -> None:
    package = tmp_path / "forged.nnpkg"
    forged(package, manifest, [(name, b"content") for name in names])
    with pytest.raises(UserFileError, match="names that clash"):
        extract_package(package, tmp_path / "dest")


def test_a_symbolic_link_is_refused(manifest: Manifest, tmp_path: Path) -> None:
    """A zip marks links by the file mode in its directory: no mode but 0644 is accepted."""
    package = write_archive({"link": b"/etc/passwd"}, manifest, tmp_path / "p.nnpkg")
    data = package.read_bytes()
    regular, link = (0o100644 << 16).to_bytes(4, "little"), (0o120777 << 16).to_bytes(4, "little")
    assert data.count(regular) == 2
    package.write_bytes(data[: data.rindex(regular)] + link + data[data.rindex(regular) + 4 :])
    with pytest.raises(GateFailedError, match="the directory is changed"):
        extract_package(package, tmp_path / "dest")
    assert not (tmp_path / "dest").exists()

"""The manifest: one form, and no other is read."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nnkit.errors import UsageError
from nnkit.package import FileRecord, Manifest
from nnkit.package.manifest import ManifestError, parse_manifest

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def with_digest(content: dict) -> bytes:
    """An independent writer of the form that the module describes."""
    content = {key: value for key, value in content.items() if key != "digest"}
    plain = json.dumps(content, sort_keys=True, indent=2).encode() + b"\n"
    content["digest"] = hashlib.sha256(plain).hexdigest()
    return json.dumps(content, sort_keys=True, indent=2).encode() + b"\n"


@given(recipe=st.dictionaries(st.text(), JSON, max_size=4))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_read_back(recipe: dict, manifest: Manifest) -> None:
    data = replace(manifest, recipe=recipe, files={"a": FileRecord("0" * 64, 3)}).to_json()
    again = parse_manifest(data)
    assert again.recipe == recipe
    assert again.files == {"a": FileRecord("0" * 64, 3)}
    assert again.to_json() == data
    assert with_digest(json.loads(data)) == data


def test_keys_that_are_numbers_become_texts(manifest: Manifest) -> None:
    data = replace(manifest, memory={"by_step": {10: 1, 9: 2}}).to_json()
    assert parse_manifest(data).memory == {"by_step": {"10": 1, "9": 2}}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, object(), {1: 0, "1": 0}])
def test_what_json_cannot_hold_is_refused(value: object, manifest: Manifest) -> None:
    with pytest.raises(UsageError, match="cannot be written as JSON"):
        replace(manifest, accuracy={"value": value}).to_json()


@pytest.mark.parametrize("key", ["name", "version", "target"])
@pytest.mark.parametrize("value", ["", "../x", "a/b", "a b", ".hidden", "a.", "x" * 81, 7])
def test_names_that_cannot_be_part_of_a_file_name_are_refused(key: str, value: object, manifest: Manifest) -> None:
    with pytest.raises(UsageError, match="cannot be part of a package's file name"):
        replace(manifest, **{key: value})


def test_file_name(manifest: Manifest) -> None:
    assert manifest.file_name == "gap8_reid-1.2.0-gap8.nnpkg"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": 7}, "name is not a str"),
        ({"name": "a/b"}, "cannot be part"),
        ({"memory": []}, "memory is not a dict"),
        ({"inputs": {}}, "inputs is not a list"),
        ({"surprise": 1}, "surprise"),
        ({"files": {"a": {"sha256": "0" * 63, "bytes": 1}}}, "the record of 'a'"),
        ({"files": {"a": {"sha256": "0" * 64, "bytes": -1}}}, "the record of 'a'"),
        ({"files": {"a": {"sha256": "0" * 64, "bytes": True}}}, "the record of 'a'"),
        ({"files": {"a": {"sha256": "0" * 64, "bytes": 1, "more": 1}}}, "the record of 'a'"),
        ({"files": {"a": 1}}, "the record of 'a'"),
        ({"files": {"../a": {"sha256": "0" * 64, "bytes": 1}}}, "has a part '..'"),
        ({"files": {"manifest.json": {"sha256": "0" * 64, "bytes": 1}}}, "the manifest's own name"),
        ({"format": 1}, "format 1; this version reads formats 2 and 3"),
    ],
)
def test_a_wrong_manifest_with_a_right_digest_is_refused(change: dict, words: str, manifest: Manifest) -> None:
    data = with_digest({**json.loads(manifest.to_json()), **change})
    with pytest.raises(ManifestError) as caught:
        parse_manifest(data)
    assert words in str(caught.value)


def test_a_missing_key_is_named(manifest: Manifest) -> None:
    content = json.loads(manifest.to_json())
    del content["tools"]
    with pytest.raises(ManifestError, match="tools"):
        parse_manifest(with_digest(content))


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]\n", b"7\n", b"\xff", b"[" * 100_000, b'{"format": 1, "format": 1}\n', b"NaN\n", b"9" * 5000],
    ids=["empty", "open", "list", "number", "binary", "deep", "twice", "nan", "long"],
)
def test_what_is_no_manifest_is_refused(data: bytes) -> None:
    with pytest.raises(ManifestError):
        parse_manifest(data)


def test_another_layout_of_the_same_values_is_refused(manifest: Manifest) -> None:
    data = json.dumps(json.loads(manifest.to_json()), sort_keys=True).encode()
    with pytest.raises(ManifestError, match="not in the form"):
        parse_manifest(data)

"""The stage cache: keys that tell calls apart, entries that are whole or absent, a bound that holds."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nnkit.cache import StageCache, default_folder, installed_version, source_digest
from nnkit.errors import InternalError
from nnkit.owned_folder import locked_file

FILES = {"model.onnx": b"\x00\x01" * 500, "notes": b"", "näme": b"third"}


@pytest.fixture
def cache(tmp_path: Path) -> StageCache:
    return StageCache(tmp_path / "cache")


def _key(number: int) -> str:
    return StageCache(None).key("test", inputs=[str(number)])


def _entries(cache: StageCache) -> list[Path]:
    assert cache.root is not None
    return sorted(path for path in cache.root.rglob("*") if path.is_file())


def test_what_is_put_is_got(cache: StageCache) -> None:
    assert cache.get(_key(1)) is None
    assert cache.put(_key(1), FILES)
    assert cache.get(_key(1)) == FILES
    assert list(StageCache(cache.root).get(_key(1)) or {}) == list(FILES)
    assert cache.get(_key(2)) is None
    assert cache.put(_key(1), {"other": b"1"})
    assert cache.get(_key(1)) == {"other": b"1"}
    assert cache.notes == ()


@dataclass(frozen=True)
class _Options:
    method: str
    count: int = 1


def test_every_part_of_a_call_is_in_the_key() -> None:
    cache = StageCache.disabled()

    def key(stage: str = "s", **changed: Any) -> str:
        call: dict[str, Any] = {"inputs": ["a", "b"], "options": {"x": 1}, "modules": ["nnkit.errors"], "tools": {}}
        return cache.key(stage, **{**call, **changed})

    keys = [
        key(),
        key("t"),
        key(inputs=["b", "a"]),
        key(inputs=["ab"]),
        key(options={"x": 1.0}),
        key(options={"x": "1"}),
        key(options={"x": True}),
        key(options={"x": None}),
        key(options={"x": [1]}),
        key(options=_Options("max")),
        key(options=_Options("max", 2)),
        key(modules=["nnkit.errors", "nnkit.cache"]),
        key(tools={"onnx": "1"}),
        key(tools={"onnx": "2"}),
        key(tools=["onnx"]),
    ]
    assert len(set(keys)) == len(keys)
    assert key() == keys[0]
    assert key(options={"b": 1, "a": (2, 3)}) == key(options={"a": [2, 3], "b": 1})
    assert all(len(each) == 64 for each in keys)


def test_an_option_that_has_no_content_is_refused() -> None:
    with pytest.raises(InternalError, match="object"):
        StageCache.disabled().key("s", inputs=[], options={"x": object()})


def test_source_digest_follows_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "a_stage_of_the_cache_test"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "inner" / "template.c.j2").write_text("one")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    before = source_digest([package.name])
    assert before == source_digest([importlib.import_module(package.name)])
    (package / "__pycache__").mkdir(exist_ok=True)
    (package / "__pycache__" / "x.pyc").write_text("compiled")
    assert source_digest([package.name]) == before
    (package / "inner" / "template.c.j2").write_text("two")
    assert source_digest([package.name]) != before


def test_versions_of_installed_tools() -> None:
    import numpy

    assert installed_version("numpy") == numpy.__version__
    assert installed_version("no-such-distribution-of-anyone") == "absent"


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "extend", "foreign"])
def test_a_damaged_entry_is_absent_and_removed(cache: StageCache, damage: str) -> None:
    cache.put(_key(1), FILES)
    (entry,) = _entries(cache)
    data = entry.read_bytes()
    changed = {
        "flip": data[:-300] + bytes([data[-300] ^ 1]) + data[-299:],
        "cut": data[:-1],
        "empty": b"",
        "extend": data + b"\0",
        "foreign": b"something else entirely",
    }
    entry.write_bytes(changed[damage])
    assert cache.get(_key(1)) is None
    assert _entries(cache) == []
    assert cache.put(_key(1), FILES)
    assert cache.get(_key(1)) == FILES


def test_every_flipped_byte_of_an_entry_is_found(cache: StageCache) -> None:
    cache.put(_key(1), {"a": b"0123456789"})
    (entry,) = _entries(cache)
    data = entry.read_bytes()
    for position in range(len(data)):
        entry.write_bytes(data[:position] + bytes([data[position] ^ 0x40]) + data[position + 1 :])
        assert cache.get(_key(1)) is None


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    cache = StageCache(tmp_path, max_bytes=4000)
    for number in range(3):
        assert cache.put(_key(number), {"x": bytes(1000)})
        os.utime(tmp_path / _key(number)[:2] / f"{_key(number)}.entry", (1000 + number, 1000 + number))
    assert cache.get(_key(0)) is not None  # used now
    assert cache.put(_key(3), {"x": bytes(1000)})
    assert [n for n in range(4) if cache.get(_key(n)) is not None] == [0, 2, 3]
    assert sum(path.stat().st_size for path in _entries(cache)) <= 4000


def test_a_result_over_the_bound_is_not_kept(tmp_path: Path) -> None:
    cache = StageCache(tmp_path / "c", max_bytes=1000)
    assert cache.put(_key(0), {"x": b"small"})
    assert not cache.put(_key(1), {"x": bytes(2000)})
    assert "over the bound" in cache.notes[0]
    assert cache.get(_key(0)) == {"x": b"small"}


def test_what_a_killed_run_left_is_swept(cache: StageCache) -> None:
    cache.put(_key(0), {"x": b"1"})
    (entry,) = _entries(cache)
    killed, at_work = entry.with_suffix(".1-a.tmp"), entry.with_suffix(".2-b.tmp")
    killed.write_bytes(b"half")
    handle = locked_file(at_work)
    cache.put(_key(0), {"x": b"2"})
    assert _entries(cache) == sorted([entry, at_work])
    os.close(handle)
    cache.put(_key(0), {"x": b"3"})
    assert _entries(cache) == [entry]


def test_an_unwritable_cache_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = StageCache(tmp_path / "file" / "cache")
    assert cache.get(_key(1)) is None
    assert not cache.put(_key(1), FILES)
    assert not cache.put(_key(2), FILES)
    assert len([note for note in cache.notes if "cannot be written" in note]) == 1
    assert "goes on without it" in cache.notes[-1]


def test_a_disabled_cache_keeps_nothing() -> None:
    cache = StageCache.disabled()
    assert not cache.put(_key(1), FILES)
    assert cache.get(_key(1)) is None
    assert cache.notes == ()


@pytest.mark.parametrize("key", ["", "../../etc/passwd", "A" * 64, "0" * 63])
def test_only_keys_name_entries(cache: StageCache, key: str) -> None:
    with pytest.raises(InternalError):
        cache.get(key)


def test_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NNKIT_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_folder() == tmp_path / "own"
    assert StageCache.default().root == tmp_path / "own"
    monkeypatch.delenv("NNKIT_CACHE")
    assert default_folder() == tmp_path / "xdg" / "nnkit"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert default_folder() == tmp_path / ".cache" / "nnkit"


_WORKER = """
import sys
from pathlib import Path
from nnkit.cache import StageCache
cache = StageCache(Path(sys.argv[1]), max_bytes=40_000)
keys = [StageCache(None).key("shared", inputs=[str(n)]) for n in range(8)]
for turn in range(60):
    for number, key in enumerate(keys):
        found = cache.get(key)
        if found is not None and found != {"x": bytes([number]) * (1000 * number + 1)}:
            sys.exit("a wrong or torn entry was read")
        if (turn + number + int(sys.argv[2])) % 3 == 0:
            cache.put(key, {"x": bytes([number]) * (1000 * number + 1)})
if cache.notes:
    sys.exit(repr(cache.notes))
"""


def test_runs_side_by_side(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", _WORKER, str(tmp_path / "c"), str(number)], env=environment, stderr=subprocess.PIPE
        )
        for number in range(2)
    ]
    for run in runs:
        _, errors = run.communicate(timeout=60)
        assert run.returncode == 0, errors.decode()
    left = list((tmp_path / "c").rglob("*.*"))
    assert left
    assert not [path for path in left if path.suffix == ".tmp"]

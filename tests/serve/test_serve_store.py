"""Jobs on disk: damaged files, a full disk, a job that ends its server, and how many jobs one may have."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from nnkit.serve.store import Sender, Store, TooManyJobsError, new_record

ME = Sender("me", "here")


def added(store: Store, sender: Sender = ME, per_user: int = 9, per_address: int = 9) -> str:
    name, _ = store.new_folder(sender, per_user, per_address)
    store.add(new_record(name, sender, "net", "gap8", {"verify.gates.cosine": 0.9}))
    return name


def _replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_text(""),
        lambda path: path.write_text(path.read_text()[:50]),
        lambda path: path.write_text("[]"),
        lambda path: path.write_text(path.read_text().replace('"waiting"', '"odd"')),
        lambda path: path.write_text(path.read_text().replace('"net"', "5")),
        lambda path: path.write_bytes(b"\xff\x00"),
        lambda path: path.write_text(json.dumps({**json.loads(path.read_text()), "id": "0" * 16})),
        _replace_by_folder,
    ],
)
def test_a_damaged_job_is_set_aside_and_the_others_are_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: Callable[[Path], None]
) -> None:
    store = Store(tmp_path)
    good, bad = added(store), added(store)
    (tmp_path / bad / "input/net.onnx").write_bytes(b"x")
    damage(tmp_path / bad / "job.json")
    again = Store(tmp_path)
    again.sweep()
    assert [job.id for job in again.of("me")] == [good]
    assert (tmp_path / f"{bad}.damaged/input/net.onnx").read_bytes() == b"x"
    said = capsys.readouterr().err
    assert str(tmp_path / bad / "job.json") in said
    assert f"{bad}.damaged" in said
    assert Store(tmp_path).of("me") == again.of("me")
    assert capsys.readouterr().err == ""


def test_a_job_that_ran_when_its_server_was_killed_twice_is_not_begun_again(tmp_path: Path) -> None:
    name = added(Store(tmp_path))
    for state in ("waiting", "waiting", "failed"):
        store = Store(tmp_path)
        (job,) = store.of("me")
        assert job.state == state
        store.next_waiting()  # and then the server is killed
    assert "2 times" in job.error
    assert "fix:" in job.error
    assert store.next_waiting() is None
    assert name == job.id


def test_a_state_that_a_full_disk_did_not_take_counts_and_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    name = added(store)
    with monkeypatch.context() as full:

        def no_room(*_: object, **__: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        full.setattr(Path, "write_text", no_room)
        assert store.next_waiting() is not None
        assert store.change(name, lambda job: job.state == "running", state="failed", error="why") is not None
        assert [job.state for job in store.of("me")] == ["failed"]
        arriving, folder = store.new_folder(ME, 9, 9)
        with pytest.raises(OSError, match="No space"):
            store.add(new_record(arriving, ME, "net", "", {}))
        store.discard(folder)
    assert json.loads((tmp_path / name / "job.json").read_text())["state"] == "waiting"
    store.catch_up()
    assert json.loads((tmp_path / name / "job.json").read_text())["state"] == "failed"
    assert [job.id for job in Store(tmp_path).of("me")] == [name]


def test_a_job_whose_folder_was_removed_keeps_no_other_from_being_written(tmp_path: Path) -> None:
    store = Store(tmp_path)
    names = [added(store) for _ in range(9)]
    gone, others = names[4], [*names[:4], *names[5:]]
    shutil.rmtree(tmp_path / gone)
    for name in names:
        assert store.change(name, lambda job: True, state="failed", error="why") is not None
    states = {json.loads((tmp_path / name / "job.json").read_text())["state"] for name in others}
    assert states == {"failed"}


def test_a_user_and_an_address_may_have_so_many_jobs_those_that_arrive_included(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first = added(store, per_user=2)
    _, arriving = store.new_folder(ME, 2, 9)
    with pytest.raises(TooManyJobsError, match="you have 2 jobs"):
        store.new_folder(ME, 2, 9)
    store.discard(arriving)
    added(store, per_user=2)
    for cookie in ("a", "b"):
        added(store, Sender(cookie, "here"), per_address=4)
    with pytest.raises(TooManyJobsError, match="4 jobs were sent from this address"):
        store.new_folder(Sender("c", "here"), 2, 4)
    added(store, Sender("c", "elsewhere"), per_address=4)
    added(store, Sender("c", "here"), per_address=0)  # with tokens the address does not count
    store.remove(first)
    with pytest.raises(TooManyJobsError):
        Store(tmp_path).new_folder(Sender("d", "here"), 2, 4)  # those of a server before count, too

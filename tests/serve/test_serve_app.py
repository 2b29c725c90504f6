"""Answers of the server, without a process of its own: odd uploads, cookies, quotas, a disk without room."""

from __future__ import annotations

import errno
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from nnkit.serve import uploads, users
from nnkit.serve.app import make_app
from nnkit.serve.limits import Limits, ServeOptions
from nnkit.serve.store import Store

TOKEN = "t" * 30
NET = ("model", ("net.onnx", b"x"))


def client(folder: Path, *, url: str = "http://localhost", host: str = "10.0.0.1", **options: object) -> TestClient:
    app = make_app(ServeOptions(folder / "jobs", **options))  # type: ignore[arg-type]
    return TestClient(app, base_url=url, client=(host, 1), follow_redirects=False)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            [("model", ("images", b"x")), ("images", ("0.png", b"x"))],
            "'images' is the name of a file and of a folder",
        ),
        (
            [("images", ("0.png", b"x")), ("model", ("images", b"x"))],
            "'images' is the name of a file and of a folder",
        ),
        ([NET, ("files", ("a", b"x")), ("files", ("a/b", b"x"))], "'a' is the name of a file and of a folder"),
        ([NET, ("files", ("a/b/c", b"x")), ("files", ("a/b", b"x"))], "'a/b' is the name of a file and of a folder"),
        ([("recipe", ("r.yaml", b"x")), ("files", ("recipe.yaml/x", b"x"))], "'recipe.yaml' is the name of a file"),
    ],
)
def test_a_name_for_a_file_and_a_folder_is_refused_with_a_reason(
    tmp_path: Path, files: list[tuple[str, tuple[str, bytes]]], said: str
) -> None:
    answer = client(tmp_path).post("/api/jobs", files=files)
    assert answer.status_code == 400
    assert said in answer.json()["detail"]
    assert list((tmp_path / "jobs").iterdir()) == []


@pytest.mark.parametrize("levels", [21, 900, 40_000])
@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deeply_nested_settings_are_refused_with_a_reason(tmp_path: Path, levels: int, opening: str) -> None:
    deep = opening * levels + "1" + {"[": "]"}.get(opening, "}") * levels
    answer = client(tmp_path).post("/api/jobs", files=[NET], data={"settings": f'{{"a": {deep}}}'})
    assert answer.status_code == 400
    assert "more than 20 levels" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ('"\\ud800"', "half a character"),
        ('{"\\udc80": 1}', "half a character"),
        ("NaN", "no JSON: NaN is no number"),
        ("-Infinity", "no JSON: -Infinity is no number"),
    ],
)
def test_settings_that_could_not_be_kept_as_json_are_refused(tmp_path: Path, value: str, said: str) -> None:
    answer = client(tmp_path).post("/api/jobs", files=[NET], data={"settings": f'{{"a": {value}}}'})
    assert answer.status_code == 422
    assert said in answer.json()["detail"]
    assert list((tmp_path / "jobs").iterdir()) == []


@pytest.mark.parametrize("tokens", [{}, {TOKEN: "me"}])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "["}, 421),
        ({"Host": "[::1"}, 421),
        ({"Host": "127.0.0.1]:x"}, 421),
        ({"Origin": "http://["}, 403),
        ({"Origin": "//]"}, 403),
    ],
)
def test_headers_that_are_no_url_are_refused(
    tmp_path: Path, headers: dict[str, str], status: int, tokens: dict[str, str]
) -> None:
    answer = client(tmp_path, tokens=tokens).get("/login", headers=headers)
    assert answer.status_code == status
    assert answer.json()["detail"]


def test_settings_within_bounds_and_odd_letters_are_listed(tmp_path: Path) -> None:
    sender = client(tmp_path)
    settings = '{"a": ' + "[" * 18 + "1" + "]" * 18 + "}"
    assert sender.post("/api/jobs", files=[NET], data={"settings": settings, "name": "é\x00"}).status_code == 201
    assert [job["name"] for job in sender.get("/api/jobs").json()] == ["é\x00"]
    assert [job.settings for job in Store(tmp_path / "jobs")._jobs.values()] != [{}]


@pytest.mark.parametrize("charset", ["utf-7", "idna", "hex", "no-such"])
def test_forms_in_other_encodings_are_refused(tmp_path: Path, charset: str) -> None:
    part = b'--x\r\nContent-Disposition: form-data; name="name"\r\n\r\n+2AA-\r\n--x--\r\n'
    headers = {"content-type": f"multipart/form-data; boundary=x; charset={charset}"}
    assert client(tmp_path).post("/api/jobs", content=part, headers=headers).status_code == 415


def test_a_full_disk_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    sender = client(tmp_path)
    with monkeypatch.context() as full:
        full.setattr(uploads.shutil, "copyfileobj", no_room)
        answer = sender.post("/api/jobs", files=[NET])
    assert (answer.status_code, "disk is full" in answer.json()["detail"]) == (507, True)
    assert list((tmp_path / "jobs").iterdir()) == []
    with monkeypatch.context() as full:
        full.setattr(Store, "_write", no_room)
        answer = sender.post("/api/jobs", files=[NET])
    assert (answer.status_code, "disk is full" in answer.json()["detail"]) == (507, True)
    assert sender.post("/api/jobs", files=[NET]).status_code == 201


def test_new_cookies_give_no_more_jobs_than_an_address_may_have(tmp_path: Path) -> None:
    limits = Limits(jobs_per_user=2, jobs_per_address=3)
    app = make_app(ServeOptions(tmp_path / "jobs", limits=limits))
    answers = [
        TestClient(app, base_url="http://localhost", client=(host, 1)).post("/api/jobs", files=[NET]).status_code
        for host in ("10.0.0.1",) * 4
        + ("10.0.0.2", "::ffff:10.0.0.1", "fd00::1:1", "fd00::2:2", "fd00::3", "fd00::4")
    ]
    assert answers == [201, 201, 201, 429, 201, 429, 201, 201, 201, 429]


def test_with_tokens_a_team_behind_one_address_is_not_one_user(tmp_path: Path) -> None:
    limits = Limits(jobs_per_user=2, jobs_per_address=3)
    app = make_app(ServeOptions(tmp_path / "jobs", {TOKEN: "one", "u" * 30: "two"}, (), limits=limits))
    answers = []
    for token in (TOKEN, "u" * 30) * 3:
        sender = TestClient(app, headers={"Authorization": f"Bearer {token}"}, client=("10.0.0.1", 1))
        answers.append(sender.post("/api/jobs", files=[NET]).status_code)
    assert answers == [201, 201, 201, 201, 429, 429]


def test_the_cookie_of_a_login_is_a_sessions_and_not_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = client(tmp_path, tokens={TOKEN: "me"}, hosts=())
    given = plain.post("/login", data={"token": TOKEN}).headers["set-cookie"].lower()
    assert TOKEN not in given
    assert "max-age" not in given
    assert "expires" not in given
    assert "httponly" in given
    assert "secure" not in given
    assert plain.get("/api/jobs").status_code == 200
    cookie = plain.cookies[users.COOKIE]
    behind_tls = client(tmp_path, url="https://localhost", tokens={TOKEN: "me"}, hosts=())
    assert "secure" in behind_tls.post("/login", data={"token": TOKEN}).headers["set-cookie"].lower()

    def status(cookie: str, **tokens: str) -> int:
        asker = client(tmp_path, tokens=tokens, hosts=())
        return asker.get("/api/jobs", headers={"Cookie": f"{users.COOKIE}={cookie}"}).status_code

    assert status(cookie, **{TOKEN: "me"}) == 200  # also after a restart
    assert status(cookie, **{"u" * 30: "me"}) == 401  # not when the token was taken away
    assert status(TOKEN, **{TOKEN: "me"}) == 401
    end, word, signature = cookie.split(".")
    for forged in (f"9{end}.{word}.{signature}", f"{end}.{word[:-1]}_.{signature}", f"{end}.{word}.{'0' * 64}", ""):
        assert status(forged, **{TOKEN: "me"}) == 401
    later = time.time() + 8 * 24 * 3600
    monkeypatch.setattr(users.time, "time", lambda: later)
    assert status(cookie, **{TOKEN: "me"}) == 401


def test_a_target_that_needs_a_chip_says_which_it_has(tmp_path: Path) -> None:
    sender = client(tmp_path)
    targets = {each["name"]: each for each in sender.get("/api/targets").json()}
    chips = {each["name"]: each["precisions"] for each in targets["tpu"]["chips"]}
    assert chips["bm1684x"] == ["int8", "f16", "bf16"]
    assert chips["cv181x"] == ["int8", "bf16"]  # it has no F16
    assert "hi3516cv500" in [each["name"] for each in targets["nnie"]["chips"]]
    assert (targets["ansi_c"]["chips"], targets["ansi_c"]["precisions"][0]) == ([], "float32")
    answer = sender.post("/api/jobs", files=[NET], data={"target": "tpu"})
    assert answer.status_code == 422
    assert "tpu needs a chip" in answer.json()["detail"]
    assert "cv181x" in answer.json()["detail"]
    assert sender.post("/api/jobs", files=[NET], data={"target": "tpu:cv181x"}).status_code == 201
    recipe = ("recipe", ("r.yaml", b"name: net"))
    assert sender.post("/api/jobs", files=[NET, recipe], data={"target": "tpu"}).status_code == 201


def test_a_browser_without_a_token_keeps_its_cookie_and_over_tls_sends_it_so_alone(tmp_path: Path) -> None:
    for url, secure in (("http://localhost", False), ("https://localhost", True)):
        given = client(tmp_path, url=url).get("/api/jobs").headers["set-cookie"].lower()
        assert ("secure" in given) == secure
        assert "max-age=2592000" in given

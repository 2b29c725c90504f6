"""Uploads to `nnkit serve`: the request, its form, names of files and recipes damaged; stored as the server does, and
the recipe that was sent held to its upload as the process of a job does.

An upload without a recipe is stored only: the network that it brings is what the class `onnx` damages. Python tells
every file that is opened (`sys.addaudithook`), so that a recipe that reaches beyond its upload is seen whatever the
server's own checks say.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from fuzz import NothingToTryError
from fuzz.builds import RECIPE, write_project
from fuzz.damage import LARGEST_INPUT_BYTES, damaged_bytes, damaged_json, damaged_text

ROOT = Path(__file__).resolve().parents[1]
SENT_RECIPE = RECIPE.replace("${VERSION:-1.0.0}", "1.0.0").replace('"*.npy"', "images")
_NAMES = (
    "../x",
    "/etc/passwd",
    "a/../../x",
    "..",
    ".",
    "C:\\x",
    "a\\..\\..\\x",
    "a" * 300,
    "x\x00y",
    "\u00e9",
    "",
    "a/b/c/d/e",
)
_NAMES += (
    "net.onnx",
    "recipe.yaml",
    "images/0.npy",
    "..%2fx",
    "%2e%2e/x",
    ".hidden",
    "net.onnx/x",
    "images",
    "images/x",
    "recipe.yaml/x",
    "extra",
    "extra/a",
    "extra/a/b",
    "x\r\ny",
    "~/x",
    "$HOME",
)
_KEYS = ("model", "weights", "images", "files", "recipe", "target", "settings", "name", "no such field", "")
_VALUES = (
    "/etc/passwd",
    "../../secret",
    "~/secret",
    "'..\\..\\secret'",
    "../*/*",
    "/etc/*",
    "${HOME}/secret",
    "../net.onnx",
)
_VALUES += ("!include /etc/passwd", "!include ../secret", "&a [*a]", "/proc/self/environ", "images/../../../secret")
_LINES = (
    "targets: {nnie: {chip: hi3516cv500, mapper: {path: /bin/sh}}}",
    "release: {key: /root/key, notes: /etc/hostname}",
    "labels: ../../labels.txt",
    "? !include ../secret",
    "name: ../../x",
)
_SETTINGS = (
    "verify.gates.cosine",
    "model.path",
    "release.version",
    "targets.onnx_qdq",
    "name",
    "a.b[0]",
    "",
    ".",
    "x\ny",
)
_HEADERS = (
    "text/plain",
    "multipart/form-data",
    "multipart/form-data; boundary=",
    'multipart/form-data; boundary="a b"',
)
_HEADERS += (
    "multipart/form-data; boundary=" + "b" * 5000,
    "multipart/form-data; boundary=x; charset=nonsense",
    "multipart/form-data; boundary=x; charset=utf-16",
    "",
)
_LENGTHS = ("0", "-1", "1e3", "9" * 30, "\u00b2", "")
_BOUNDARY = "x"
_LIMIT_BYTES = 600 << 10  # less than what a damaged upload may have, so that the limit is met, too
_MOST_FILES = 12


@dataclass(frozen=True)
class Part:
    """A field of a form; filename None: a text."""

    key: str
    filename: str | None
    content: bytes


@dataclass(frozen=True)
class Seeds:
    """app: the server, whose jobs nobody builds. jobs: its folder. parts: of a whole upload."""

    app: Any
    jobs: Path
    parts: tuple[Part, ...]


@dataclass
class _Watch:
    """Files opened since `folder` was set; empty: nobody watches."""

    folder: str = ""
    beyond: tuple[str, ...] = ()


_WATCH = _Watch()
_OWN = tuple({sys.prefix, sys.base_prefix, str(ROOT), "/dev/", *(path for path in sys.path if path.startswith("/"))})


def seeds(folder: Path) -> Seeds:
    """A server and an upload of a network, two arrays and a recipe. Raises NothingToTryError without the server."""
    try:
        from nnkit.serve.app import make_app
    except ImportError as error:
        raise NothingToTryError(f"the extra `serve` is not installed: {error}") from error
    from nnkit.serve.limits import Limits, ServeOptions

    write_project(folder)
    jobs = folder / "jobs"
    limits = Limits(_LIMIT_BYTES, files=_MOST_FILES, jobs_per_user=1 << 20, jobs_per_address=1 << 20)
    app = make_app(ServeOptions(jobs, hosts=(), limits=limits))
    parts = [
        Part("model", "net.onnx", (folder / "net.onnx").read_bytes()),
        Part("recipe", "mine.yaml", SENT_RECIPE.encode()),
    ]
    parts += [Part("images", f"{index}.npy", (folder / f"{index}.npy").read_bytes()) for index in range(2)]
    parts += [Part("files", "extra/a", b"x"), Part("files", "extra/b", b"x")]
    parts += [Part("target", None, b"onnx_qdq"), Part("settings", None, b'{"verify.gates.cosine": 0.4}')]
    sys.addaudithook(note_opened)
    return Seeds(app, jobs, tuple(parts))


def attempt(given: Seeds, chance: Random, folder: Path) -> None:
    """One damaged upload. Raises UserFileError where the server refuses it, and what reading its recipe raises."""
    from nnkit.errors import UserFileError
    from nnkit.serve.store import JobFolder

    before = set(given.jobs.parent.iterdir())
    parts = _damaged(given.parts, chance)
    try:
        status, answer = asyncio.run(_sent(given.app, parts, chance))
        if set(given.jobs.parent.iterdir()) != before:
            raise AssertionError("an upload has put something beside the folder of jobs")
        if status != 201:
            if not 400 <= status < 500 or not json.loads(answer)["detail"] or any(given.jobs.glob("*/input/*")):
                raise AssertionError(f"refused by {status}, {answer!r}")
            raise UserFileError(json.loads(answer)["detail"], remedy="as the answer says")
        job = JobFolder(given.jobs / json.loads(answer)["id"])
        for path in job.input.rglob("*"):
            if path.is_symlink() or not path.resolve().is_relative_to(job.input.resolve()):
                raise AssertionError(f"an upload made {path}")
        if (job.input / "recipe.yaml").exists():
            record = json.loads((job.path / "job.json").read_text(encoding="utf-8"))
            read_recipe(job.input, record["settings"], record["target"])
    finally:
        for path in given.jobs.iterdir():
            if path.is_dir():
                shutil.rmtree(path)


def read_recipe(folder: Path, settings: dict[str, Any], target: str) -> None:
    """As a job does. Raises AssertionError for an opened file beyond the folder, or a path that leads there."""
    from nnkit.serve.strangers import load_foreign, recipe_paths

    with _watched(folder):
        recipe = load_foreign(folder / "recipe.yaml", settings, target)
    for path in recipe_paths(recipe):
        if not (folder / path.text.replace("\\", "/")).resolve().is_relative_to(folder.resolve()):
            raise AssertionError(f"the recipe may name {path.text!r}")


@contextmanager
def _watched(folder: Path) -> Iterator[None]:
    _WATCH.folder, _WATCH.beyond = str(folder.resolve()), ()
    try:
        yield
    finally:
        _WATCH.folder = ""
        if _WATCH.beyond:
            raise AssertionError(f"opened {_WATCH.beyond[0]!r}")


def note_opened(event: str, arguments: tuple[Any, ...]) -> None:
    """Notes a file that is opened beyond the upload, and that is none of Python's or nnkit's own."""
    if event != "open" or not _WATCH.folder or not isinstance(arguments[0], str):
        return
    path = str(Path(arguments[0]).resolve()) if "\x00" not in arguments[0] else arguments[0]
    if not path.startswith((_WATCH.folder, *_OWN)):
        _WATCH.beyond += (path,)


def _damaged(parts: tuple[Part, ...], chance: Random) -> list[Part]:
    """One to four changes of the form's fields."""
    made = list(parts)
    for _ in range(chance.choice((0, 1, 1, 2, 4))):
        at, kind = chance.randrange(len(made)), chance.randrange(14)
        part = made[at]
        if kind == 0 and len(made) > 1:
            del made[at]
        elif kind == 1:
            made.append(part)
        elif kind == 2:
            made[at] = Part(chance.choice(_KEYS), part.filename, part.content)
        elif kind == 3:
            made[at] = Part(part.key, chance.choice((None, *_NAMES)), part.content)
        elif kind == 4:
            made[at] = Part(part.key, part.filename, damaged_bytes(part.content, chance))
        elif kind == 5:
            made[at] = Part("settings", None, _settings(chance))
        elif kind == 6:
            made += [Part("files", f"f{number}", b"x") for number in range(chance.choice((1, _MOST_FILES, 3000)))]
        else:
            made = [_damaged_recipe(each, chance) if each.key == "recipe" else each for each in made]
    return made


def _damaged_recipe(part: Part, chance: Random) -> Part:
    """A value that reaches beyond the upload, a line of that kind, or damage of any kind."""
    text = part.content.decode("utf-8", "replace")
    kind = chance.random()
    if kind < 0.4:
        values = list(re.finditer(r"(?<=: )[^\s,{}][^,{}\n]*", text)) or [re.compile("").search(text)]
        value = chance.choice([each for each in values if each is not None])
        text = text[: value.start()] + chance.choice(_VALUES) + text[value.end() :]
    elif kind < 0.6:
        lines = text.split("\n")
        lines.insert(chance.randrange(len(lines)), chance.choice(_LINES))
        text = "\n".join(lines)
    else:
        return Part(part.key, part.filename, damaged_text(text, chance, (*_VALUES, *_LINES)))
    return Part(part.key, part.filename, text.encode("utf-8", "replace"))


def _settings(chance: Random) -> bytes:
    values = (
        0.5,
        None,
        "/etc/passwd",
        "../x",
        "!include /etc/passwd",
        "${HOME}",
        [1],
        {"a": "b"},
        float("nan"),
        10**400,
    )
    chosen = {chance.choice(_SETTINGS): chance.choice(values) for _ in range(chance.randrange(1, 4))}
    text = json.dumps(chosen)
    if chance.random() < 0.1:
        levels = chance.choice((3, 20, 900, 5_000, 100_000))
        opening, closing = chance.choice((("[", "]"), ('{"a":', "}")))
        return f'{{"name": {opening * levels}1{closing * levels}}}'.encode()
    return damaged_json(text, chance) if chance.random() < 0.5 else damaged_text(text, chance)


async def _sent(app: Any, parts: list[Part], chance: Random) -> tuple[int, bytes]:
    """Status and body of the server's answer to the form, as pieces; a sender may hang up."""
    body = b"".join(_field(part, chance) for part in parts) + f"--{_BOUNDARY}--\r\n".encode()
    if chance.random() < 0.15:
        body = damaged_bytes(body, chance)
    body = body[:LARGEST_INPUT_BYTES]
    header = f"multipart/form-data; boundary={_BOUNDARY}"
    content_type = chance.choice(_HEADERS) if chance.random() < 0.05 else header
    length = chance.choice(_LENGTHS) if chance.random() < 0.05 else str(len(body))
    headers = [(b"host", b"x"), (b"content-type", content_type.encode()), (b"content-length", length.encode())]
    cuts = sorted({0, len(body), *(chance.randrange(len(body) + 1) for _ in range(chance.choice((0, 1, 7))))})
    pieces = [body[start:end] for start, end in itertools.pairwise(cuts)] or [b""]
    last = [] if chance.random() < 0.02 else [{"type": "http.request", "body": pieces[-1], "more_body": False}]
    messages = iter([*({"type": "http.request", "body": piece, "more_body": True} for piece in pieces[:-1]), *last])
    answers: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return next(messages, {"type": "http.disconnect"})

    async def send(message: dict[str, Any]) -> None:
        answers.append(message)

    scope: dict[str, Any] = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/api/jobs",
    }
    scope |= {"raw_path": b"/api/jobs", "query_string": b"", "headers": headers, "client": ("127.0.0.1", 1)}
    await app({**scope, "server": ("127.0.0.1", 80), "root_path": ""}, receive, send)
    return answers[0]["status"], b"".join(answer.get("body", b"") for answer in answers)


def _field(part: Part, chance: Random) -> bytes:
    """As a browser sends it; some without a type, or with a header that no browser has."""
    name = "" if part.filename is None else f'; filename="{part.filename}"'
    lines = [f"--{_BOUNDARY}", f'Content-Disposition: form-data; name="{part.key}"{name}']
    if chance.random() < 0.1:
        lines.append(
            chance.choice(("Content-Type: x", "Content-Transfer-Encoding: base64", "X: " + "y" * 9000, "no colon"))
        )
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "replace") + part.content + b"\r\n"

"""What is sent: counted as it comes in, and put into a job's folder under names that are plain."""

from __future__ import annotations

import asyncio
import codecs
import json
import re
import shutil
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from email.message import Message
from typing import Any

from fastapi import HTTPException, Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect

from nnkit.serve.limits import Limits
from nnkit.serve.store import JobFolder
from nnkit.serve.worker import IMAGES, RECIPE

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. +@()-]{0,120}")
_MOST_PARTS = 4
_MOST_TEXT = 256 << 10  # bytes of a field that is no file
_MOST_LEVELS = 20  # of a value in the settings
_CHARSETS = ("utf-8", "ascii", "iso8859-1")
_KINDS = ("model", "weights", "images", "files", "recipe")


@dataclass(frozen=True)
class Sent:
    """The fields that are no files, and whether a recipe came. name: for the list of jobs."""

    name: str
    target: str
    settings: dict[str, Any]
    has_recipe: bool


async def receive(request: Request, folder: JobFolder, limits: Limits) -> Sent:
    """Store an upload in a job's folder.

    Raises HTTPException: 400 for what ends early or contradicts itself; 408, 413 and 415 for what is too slow, too
    large, or no form; 422 for a field or a name. OSError where it cannot be stored.
    """
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise HTTPException(415, "send a form (multipart/form-data)")
    charset = Message()
    charset["content-type"] = request.headers["content-type"]
    if not _is_plain(charset.get_content_charset("utf-8")):
        raise HTTPException(415, "send the form in UTF-8")
    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared) > limits.upload_bytes:
        raise _too_large(limits)
    parser = MultiPartParser(
        request.headers,
        _counted(request, limits),
        max_files=limits.files,
        max_fields=20,
        max_part_size=_MOST_TEXT,
    )
    try:
        form = await asyncio.wait_for(parser.parse(), limits.upload_seconds)
    except TimeoutError as error:
        raise HTTPException(408, f"the upload took longer than {limits.upload_seconds:g} s") from error
    except ClientDisconnect as error:  # nobody reads the answer; without one the server's log has a traceback
        raise HTTPException(400, "the connection ended before the upload did") from error
    except MultiPartException as error:
        raise HTTPException(413 if "Too many" in error.message else 422, error.message) from error
    try:
        return await run_in_threadpool(_store, form, folder)
    finally:
        await form.close()


def _is_plain(charset: str) -> bool:
    try:
        return codecs.lookup(charset).name in _CHARSETS
    except (LookupError, ValueError):
        return False


async def _counted(request: Request, limits: Limits) -> AsyncGenerator[bytes, None]:
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > limits.upload_bytes:
            raise _too_large(limits)
        yield piece


def _too_large(limits: Limits) -> HTTPException:
    return HTTPException(413, f"more than {limits.upload_bytes:,} bytes; leave out pictures")


def _store(form: FormData, folder: JobFolder) -> Sent:
    texts: dict[str, str] = {}
    models: list[str] = []
    for key, value in form.multi_items():
        if isinstance(value, UploadFile):
            if not value.filename and not value.size:
                continue  # a browser's empty field
            path = _save(key, value, folder)
            models += [path] if key == "model" else []
        else:
            texts[key] = value
    odd = sorted(set(texts) - {"target", "settings", "name"})
    if odd:
        raise HTTPException(422, f"no field {odd[0]!r}; fields are {', '.join(_KINDS)}, target, settings, name")
    try:
        settings = json.loads(texts.get("settings") or "{}", parse_constant=_refuse)
        json.dumps(settings, ensure_ascii=False).encode()  # half a character, \ud800, could not be kept
    except UnicodeEncodeError as error:
        raise HTTPException(422, "settings holds half a character: remove the \\ud800-\\udfff escape") from error
    except ValueError as error:
        raise HTTPException(422, f"settings is no JSON: {error}") from error
    except RecursionError as error:
        raise _too_deep() from error
    if _levels(settings) > _MOST_LEVELS:
        raise _too_deep()
    if not isinstance(settings, dict) or not all(key.strip() for key in settings):
        raise HTTPException(422, 'settings is no object of keys and values, such as {"verify.gates.cosine": 0.9}')
    has_recipe = (folder.input / RECIPE).exists()
    if not models and not has_recipe:
        raise HTTPException(422, "send a model, or a recipe with what it names")
    title = texts.get("name") or (models[0] if models else RECIPE)
    return Sent(title[:100], texts.get("target", "")[:100], settings, has_recipe)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def _levels(value: Any) -> int:
    """How deep lists and objects lie in each other."""
    levels, inside = 0, [value]
    while inside := [each for each in inside if isinstance(each, dict | list)]:
        inside = [below for each in inside for below in (each.values() if isinstance(each, dict) else each)]
        levels += 1
    return levels


def _too_deep() -> HTTPException:
    return HTTPException(400, f"settings has values in more than {_MOST_LEVELS} levels; keys may be paths: a.b.c")


def _save(key: str, upload: UploadFile, folder: JobFolder) -> str:
    """A file into the folder; its name. Raises HTTPException for an unknown field, an odd name, one that is taken."""
    if key not in _KINDS:
        raise HTTPException(422, f"no files are taken as {key!r}; fields are {', '.join(_KINDS)}")
    parts = (upload.filename or "").replace("\\", "/").split("/")
    if key != "files":
        parts = parts[-1:]  # a browser may send the folder that was dropped
    if len(parts) > _MOST_PARTS or not all(_PART.fullmatch(part) for part in parts):
        raise HTTPException(422, f"{upload.filename!r} is no name for a file here: letters, digits, `_.+@()-`")
    parts = {"images": [IMAGES, *parts], "recipe": [RECIPE]}.get(key, parts)
    path = folder.input.joinpath(*parts)
    if path.is_file():
        raise HTTPException(422, f"{'/'.join(parts)} was sent twice: give one of the two another name")
    file_above = next((above for above in path.parents if above.is_file()), None)
    if file_above is not None or path.is_dir():
        both = "/".join(parts) if file_above is None else file_above.name
        raise HTTPException(400, f"{both!r} is the name of a file and of a folder: give the file another name")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        shutil.copyfileobj(upload.file, file)
    return parts[-1]

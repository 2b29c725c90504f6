"""Uploads that do not arrive as a whole, and what may be uploaded."""

from __future__ import annotations

import asyncio
import json
import re
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from fastapi import HTTPException, Request

from nnkit.recipe.model_formats import FORMAT_OF_SUFFIX
from nnkit.serve.limits import Limits
from nnkit.serve.store import JobFolder
from nnkit.serve.uploads import receive


def test_a_sender_that_hangs_up_gets_an_error_and_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    body = b'--x\r\nContent-Disposition: form-data; name="model"; filename="net.onnx"\r\n\r\nhalf of it'
    messages = iter([{"type": "http.request", "body": body, "more_body": True}, {"type": "http.disconnect"}])

    async def next_message() -> dict[str, Any]:
        return next(messages)

    headers = [(b"content-type", b"multipart/form-data; boundary=x")]
    request = Request({"type": "http", "method": "POST", "path": "/api/jobs", "headers": headers}, next_message)
    # In a thread of its own: browser tests leave an event loop running in this one.
    with ThreadPoolExecutor(1) as thread, pytest.raises(HTTPException) as refused:
        thread.submit(asyncio.run, receive(request, JobFolder(tmp_path), Limits())).result()
    assert (refused.value.status_code, list((tmp_path / "input").iterdir())) == (400, [])


def test_the_page_knows_every_kind_of_network_that_is_read() -> None:
    script = (resources.files("nnkit.serve") / "html" / "app.js").read_text(encoding="utf-8")
    known = re.search(r"const MODELS = (\[.*?\]);", script)
    assert known is not None
    assert sorted(json.loads(known[1])) == sorted(FORMAT_OF_SUFFIX)
    page = (resources.files("nnkit.serve") / "html" / "index.html").read_text(encoding="utf-8")
    assert all(f"<code>{suffix}</code>" in page for suffix in FORMAT_OF_SUFFIX)

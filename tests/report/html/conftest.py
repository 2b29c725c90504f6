"""A small build and its page in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page
from small_project import make_build, write_project

from nnkit.pipeline import run


@pytest.fixture(scope="session")
def small_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build for GAP8 that nothing emulated has run."""
    folder = tmp_path_factory.mktemp("page")
    return run(make_build(write_project(folder)), folder / "out").folder


class Opened:
    """A page, and all that went wrong or left the file while it was open."""

    def __init__(self, browser: Browser, path: Path, **context: str) -> None:
        self.complaints: list[str] = []
        self.page: Page = browser.new_page(viewport={"width": 1280, "height": 900}, **context)
        self.page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._request)
        self.page.goto(path.resolve().as_uri())

    def _request(self, request: object) -> None:
        url = request.url  # type: ignore[attr-defined]
        if not url.startswith(("file:", "data:")):
            self.complaints.append(f"asked for {url}")

    def tab(self, name: str) -> None:
        self.page.click(f"#tab-{name}")

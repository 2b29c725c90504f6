"""The page of `nnkit serve` in Chromium: from files to the report and the package; the page of the API."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from tests.serve.conftest import Server


def watch(page: Page, server: Server, complaints: list[str]) -> None:
    """All that goes wrong on a page, or leaves the server."""
    page.set_default_timeout(120_000)
    page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    outside = (server.url, "data:", "blob:")
    page.on("request", lambda request: None if request.url.startswith(outside) else complaints.append(request.url))


def serious(page: Page) -> list[tuple[str, str]]:
    found = Axe().run(page).response["violations"]
    return [(v["id"], v["nodes"][0]["html"][:200]) for v in found if v["impact"] in ("serious", "critical")]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_files_become_a_report_and_a_package(
    browser: Browser, start: Callable[..., Server], project: Path, tmp_path: Path, scheme: str
) -> None:
    server, complaints = start(), []
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    watch(page, server, complaints)
    page.goto(server.url)
    page.wait_for_selector("#target option", state="attached")
    assert page.locator("#build").is_disabled()
    assert serious(page) == []
    page.set_input_files("#files", [project / "net.onnx", *sorted((project / "images").iterdir())])
    assert page.locator("#chosen li").all_inner_texts() == ["net.onnx (model)", "3 pictures"]
    page.select_option("#target", "onnx_qdq")
    page.click("#build")
    page.wait_for_selector("#jobs .stages li")
    page.wait_for_selector("#jobs .state:text-is('passed')")
    stages = page.locator("#jobs .stages li").all_inner_texts()
    assert stages[:2] == ["import", "restructure"]
    assert stages[-1] == "page"
    assert serious(page) == []
    page.screenshot(path=tmp_path / "served.png")

    with page.expect_download() as download:
        page.click("a:text-is('Package')")
    package = tmp_path / download.value.suggested_filename
    download.value.save_as(package)
    verified = subprocess.run([sys.executable, "-m", "nnkit", "package", "verify", str(package)], check=False)
    assert verified.returncode == 0

    context.on("page", lambda opened: watch(opened, server, complaints))
    with context.expect_page() as opening:
        page.click("a:text-is('Report')")
    report = opening.value
    report.click("#tab-layers")
    assert report.locator("#layers").is_visible()
    assert report.evaluate("self.origin") == "null"  # of its own: it can read nothing of the server
    report.reload()
    assert report.locator("#layers").is_visible()  # the same tab of it as before
    report.close()
    page.reload()
    page.wait_for_selector("#jobs .state:text-is('passed')")  # still the same user

    page.click("button:text-is('Remove')")
    page.wait_for_selector("#none:not([hidden])")
    assert page.locator("#jobs li").count() == 0
    context.close()
    assert complaints == []


def test_a_job_is_cancelled_and_another_browser_sees_none_of_it(
    browser: Browser, start: Callable[..., Server], project: Path, tmp_path: Path
) -> None:
    for kind in ("go", "stop"):  # pictures of the same name, in folders by kind
        shutil.copytree(project / "images", tmp_path / "pictures" / kind)
    server, complaints = start(), []
    first, second = browser.new_page(), browser.new_page()
    for page in (first, second):
        watch(page, server, complaints)
        page.goto(server.url)
        page.wait_for_selector("#target option", state="attached")
    first.set_input_files("#files", project / "net.onnx")
    first.set_input_files("#folder", tmp_path / "pictures")
    assert first.locator("#chosen li").all_inner_texts() == ["net.onnx (model)", "6 pictures"]
    first.select_option("#target", "gap8")
    first.click("#build")
    first.wait_for_selector("#jobs .stages li")
    second.reload()
    second.wait_for_selector("#target option", state="attached")
    assert second.locator("#none").is_visible()
    sent = sorted(path.name for path in (tmp_path / "jobs").rglob("images/*"))
    assert sent in [
        [*(f"{n}.png" for n in range(3)), *(f"{kind}_{n}.png" for n in range(3))] for kind in ("go", "stop")
    ]
    first.click("button:text-is('Cancel')")
    first.wait_for_selector("#jobs .state:text-is('cancelled')")
    for page in (first, second):
        page.close()
    assert complaints == []


def test_a_chip_is_asked_for_and_its_precisions_are_offered(
    browser: Browser, start: Callable[..., Server], project: Path, tmp_path: Path
) -> None:
    server, complaints = start(), []
    page = browser.new_page()
    watch(page, server, complaints)
    page.goto(server.url)
    page.wait_for_selector("#target option", state="attached")
    page.set_input_files("#files", [project / "net.onnx"])
    page.select_option("#target", "gap8")
    assert page.locator("#chip").is_hidden()
    assert page.locator("#precision option").all_inner_texts() == ["int16", "int8"]
    assert page.locator("#build").is_enabled()
    page.select_option("#target", "tpu")
    chips = page.locator("#chip option").all_inner_texts()
    assert chips[0] == "choose one"
    assert {"bm1684x", "cv181x"} <= set(chips)
    assert page.locator("#build").is_disabled()
    page.select_option("#chip", "cv181x")
    assert page.locator("#precision option").all_inner_texts() == ["int8", "bf16"]
    page.select_option("#precision", "bf16")
    assert serious(page) == []
    page.click("#build")
    page.wait_for_selector("#jobs li")
    (record,) = (json.loads(path.read_text()) for path in (tmp_path / "jobs").glob("*/job.json"))
    assert (record["target"], record["settings"]) == ("tpu:cv181x", {"targets.tpu.precision": "bf16"})
    page.set_input_files("#files", [project / "net.onnx", project / "recipe.yaml"])
    assert page.locator("#chip").is_hidden()  # the recipe says it
    page.close()
    assert complaints == []


def test_what_is_wrong_is_said_on_the_page(browser: Browser, start: Callable[..., Server], tmp_path: Path) -> None:
    server, complaints = start(), []
    page = browser.new_page()
    watch(page, server, complaints)
    page.goto(server.url)
    (tmp_path / "net.onnx").write_bytes(b"no network")
    page.set_input_files("#files", tmp_path / "net.onnx")
    page.wait_for_selector("#target option", state="attached")
    page.click("#build")
    page.wait_for_selector("#jobs .state:text-is('could not be built')")
    assert "fix:" in page.locator("#jobs .error").inner_text()
    page.close()
    assert complaints == []


def test_a_token_is_asked_for_once(browser: Browser, start: Callable[..., Server], tmp_path: Path) -> None:
    server, complaints = start("--token-file", tmp_path / "tokens"), []
    page = browser.new_page()
    watch(page, server, complaints)
    page.goto(server.url)
    assert page.url.endswith("/login")
    assert serious(page) == []
    page.fill("[name=token]", (tmp_path / "tokens").read_text().split()[1])
    page.click("button")
    page.wait_for_selector("#target option", state="attached")
    page.close()
    assert complaints == []


def test_the_page_of_the_api_needs_no_other_server(browser: Browser, start: Callable[..., Server]) -> None:
    server, complaints = start(), []
    page = browser.new_page()
    watch(page, server, complaints)
    page.goto(f"{server.url}/docs")
    page.wait_for_selector(".opblock-summary-path")
    paths = [path.replace("​", "") for path in page.locator(".opblock-summary-path").all_inner_texts()]
    assert "/api/jobs" in paths
    page.close()
    assert complaints == []

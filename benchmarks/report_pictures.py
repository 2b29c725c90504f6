"""Pictures of the shipped recipes' reports for docs/images/reports, taken in Debian's Chromium.

    python -m benchmarks.report_pictures OUT [FOLDER]

OUT: where the recipes of docs/report.md were built (`nnkit run recipes/NAME/recipe.yaml --out OUT`); builds that are
not there are named and left as they are. FOLDER: takes the pictures, docs/images/reports unless given. Needs
Playwright and Chromium, as the tests do.
"""

from __future__ import annotations

import argparse
import io
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from PIL import Image

_FOLDER = Path(__file__).resolve().parent.parent / "docs" / "images" / "reports"
_VIEWPORT, _SIZE, _COLOURS = (1200, 860), (900, 645), 256
_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True)
class Picture:
    """A part of a page. build: its folder below OUT. heading: what stands at the top of the picture."""

    name: str
    build: str
    tab: str
    heading: str = ""
    scheme: Literal["light", "dark"] = "light"


PICTURES = (
    Picture("gap8_reid_overview", "gap8_reid/gap8", "overview"),
    Picture("gap8_reid_layers", "gap8_reid/gap8", "layers"),
    Picture("gap8_reid_memory", "gap8_reid/gap8", "memory", scheme="dark"),
    Picture("gap8_reid_graph", "gap8_reid/gap8", "graph"),
    Picture("gap8_reid_int8_accuracy", "gap8_reid_int8/gap8", "accuracy"),
    Picture("gap8_reid_mixed_overview", "gap8_reid_mixed/gap8", "overview"),
    Picture("gap8_reid_c_memory", "reid/ansi_c", "memory"),
    Picture("gap8_reid_qdq_accuracy", "gap8_reid_qdq/onnx_qdq", "accuracy"),
    Picture("gap8_reid_published_overview", "gap8_reid_published/gap8", "overview"),
    Picture("gap8_face_pipeline_stages", "gap8_face_pipeline/gap8", "overview"),
    Picture("gap8_face_pipeline_session", "gap8_face_pipeline/gap8", "session"),
    Picture("mcu_keyword_confusion", "keyword/ansi_c@int8", "accuracy", "Confusion"),
    Picture("mcu_ssd_boxes", "shapes/ansi_c@int8", "accuracy", "Task"),
    Picture("nnie_3559a_overview", "nnie_3559a/nnie", "overview"),
    Picture("nnie_cv500_segments", "nnie_cv500/nnie", "memory"),
    Picture("nnie_dv300_accuracy", "nnie_dv300/nnie", "accuracy"),
    Picture("tpu_detector_cv181x_memory", "tpu_detector/tpu@cv181x", "memory"),
    Picture("tpu_face_overview", "tpu_face/tpu@bm1684x", "overview"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Take all pictures of builds that are there; 1 where one is not."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report_pictures")
    parser.add_argument("out", type=Path, help="where the recipes were built")
    parser.add_argument("folder", type=Path, nargs="?", default=_FOLDER, help="takes the pictures")
    options = parser.parse_args(arguments)
    pages = {picture: options.out / picture.build / "report.html" for picture in PICTURES}
    options.folder.mkdir(parents=True, exist_ok=True)
    lacking = [picture for picture, page in pages.items() if not page.is_file()]
    for picture in lacking:
        sys.stderr.write(f"{picture.name}: no build in {options.out / picture.build}\n")
    _take({picture: page for picture, page in pages.items() if picture not in lacking}, options.folder)
    return 1 if lacking else 0


def _take(pages: dict[Picture, Path], folder: Path) -> None:
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, _CHROMIUM)), None)
    if chromium is None:
        raise SystemExit("no Chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for picture, path in pages.items():
            width, height = _VIEWPORT
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=picture.scheme)
            page.goto(path.resolve().as_uri())
            page.click(f"#tab-{picture.tab}")
            page.wait_for_timeout(1500)  # until charts stand still
            if picture.heading:
                place = page.locator(f"#{picture.tab} :is(h2, h3)", has_text=picture.heading).first
                place.evaluate("element => element.scrollIntoView()")
            shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB").resize(_SIZE, Image.Resampling.LANCZOS)
            shot.quantize(_COLOURS).save(folder / f"{picture.name}.png", optimize=True)
            page.close()
        browser.close()


if __name__ == "__main__":
    sys.exit(main())

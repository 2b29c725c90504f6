"""What the site has beyond `docs/`: READMEs of recipes and benchmarks, and the reports of shipped recipes.

`NNKIT_SITE_REPORTS` names a folder of builds (`nnkit run ... --out FOLDER`), whose reports become examples.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "benchmarks/README.md", ROOT / "CHANGELOG.md")
_LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages, and what no section of the navigation names as a last section."""
    for path in PAGES:
        files.append(File.generated(config, path.relative_to(ROOT).as_posix(), content=path.read_text("utf-8")))
    for folder in sorted({path.parent for path in ROOT.glob("recipes/*/[!_]*") if path.suffix in (".md", ".yaml")}):
        uri = (folder / "README.md").relative_to(ROOT).as_posix()
        files.append(File.generated(config, uri, content=_recipes(folder)))
    _add_reports(files, config)
    named = set(_pages(config.nav or []))
    rest = [
        file.src_uri
        for file in files.documentation_pages()
        if file.src_uri not in named and file.inclusion != InclusionLevel.EXCLUDED
    ]
    config.nav = [*(config.nav or []), *([{"More": sorted(rest)}] if rest else [])]
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, files: Files) -> str:
    """Links as they hold in the repository, to where the site has what they lead to."""
    folder = PurePosixPath(page.file.src_uri).parent
    generated = page.file.generated_by is not None
    place = ROOT / folder if generated else ROOT / "docs" / folder

    def moved(match: re.Match[str]) -> str:
        link = match[2]
        if re.match(r"[a-z]+:", link):
            return match[0]
        target = Path(os.path.normpath(place / link))
        target = target / "README.md" if target.is_dir() else target
        target = target.with_name("README.md") if target.suffix == ".yaml" else target
        inside = target.relative_to(ROOT)
        uri = inside.relative_to("docs") if inside.parts[0] == "docs" else inside
        if files.get_file_from_path(uri.as_posix()) is None:
            return match[0]
        return f"{match[1]}{os.path.relpath(uri, folder)}{match[3] or ''}{match[4]}"

    return _LINK.sub(moved, markdown)


def _recipes(folder: Path) -> str:
    """A folder's README, and its recipes as they are."""
    readme = folder / "README.md"
    text = readme.read_text("utf-8") if readme.is_file() else f"# {folder.name}\n"
    listed = [
        f"\n## `{path.name}`\n\n```yaml\n{path.read_text('utf-8')}```\n" for path in sorted(folder.glob("*.yaml"))
    ]
    return text + "".join(listed)


def _add_reports(files: Files, config: MkDocsConfig) -> None:
    named = os.environ.get("NNKIT_SITE_REPORTS")
    lines = [
        "# Reports of shipped recipes",
        "",
        "Each is the `report.html` of its build, as `nnkit run` leaves it.",
        "",
    ]
    for report in sorted(Path(named).glob("*/*/report.html")) if named else ():
        build = report.parent
        folder = f"reports/{build.parent.name}-{build.name}".replace("@", "-")
        lines.append(f"- [{build.parent.name} for {build.name}]({folder}/report.html)")
        for page in (report, *sorted(build.glob("networks/*/report.html"))):  # a deployment's page leads to theirs
            name = f"{folder}/{page.relative_to(build).as_posix()}"
            files.append(File.generated(config, name, content=page.read_bytes()))
            if page != report:
                lines.append(f"    - [its network {page.parent.name}]({name})")
    if not named:
        lines.append("They are built with the site: `bash .ci/docs FOLDER`.")
    files.append(File.generated(config, "examples.md", content="\n".join(lines) + "\n"))


def _pages(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    entries = nav.values() if isinstance(nav, dict) else nav
    return [page for entry in entries for page in _pages(entry)]

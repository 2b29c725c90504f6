"""Generated text: the packaged files it is made of, the environment of its templates, the folder it is written to."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from nnkit.errors import cannot_be_written

if TYPE_CHECKING:
    from jinja2 import Environment


def packaged_text(package: str, *path: str) -> str:
    """The text of a file that is installed with a package."""
    return resources.files(package).joinpath(*path).read_text(encoding="utf-8")


def template_environment(package: str, *folder: str) -> Environment:
    """Jinja2 over the templates in a folder of a package. Undefined names are errors; a tag alone leaves no line."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined  # 60 ms, which `nnkit --help` must not pay

    def load(name: str) -> str:
        return packaged_text(package, *folder, name)

    return Environment(
        loader=FunctionLoader(load),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def write_sources(folder: Path, sources: Mapping[str, str | bytes]) -> tuple[Path, ...]:
    """Write files by relative path, texts with the line ends that they have, into `folder`; their paths.

    Folders are created.

    Raises UserFileError where the folder cannot be written.
    """
    paths = tuple(folder / name for name in sources)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in zip(paths, sources.values(), strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    except OSError as error:
        raise cannot_be_written(folder, error) from error
    return paths

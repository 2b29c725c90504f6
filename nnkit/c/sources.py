"""C files and their templates, which stand in the folders of this package beside the Python that uses them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nnkit.c.text import comment_text
from nnkit.generated import packaged_text, template_environment

if TYPE_CHECKING:
    from jinja2 import Environment

TYPES_HEADER = "nnkit_types.h"  # every generated source includes it


def types_header() -> str:
    """The text of `nnkit_types.h`: integer types of exact width."""
    return packaged_text("nnkit", "c", TYPES_HEADER)


def c_environment(package: str, *folder: str) -> Environment:
    """The environment of C templates: `name | comment` makes a text that may stand in a comment."""
    environment = template_environment(package, *folder)
    environment.filters["comment"] = comment_text
    return environment


def tidy_source(environment: Environment, template: str, values: Mapping[str, Any]) -> str:
    """A template filled, without trailing blanks or doubled empty lines."""
    lines: list[str] = []
    for line in environment.get_template(template).render(values).split("\n"):
        text = line.rstrip()
        if text or (lines and lines[-1]):
            lines.append(text)
    return "\n".join(lines).strip("\n") + "\n"

"""Tags as words of a layer's name.

A name carries `hp` (or `cpu`) where `_hp` (`_cpu`) stands in it as a whole word, that is, followed by the end of the
name or by a character that is neither letter nor digit: `fc_pca_hp`, `conv1_hp_cpu`, `fc_hp/Gemm`, `/layer_hp/Conv`,
`conv_hp_1`; not `conv_hpx`, `chp`, `fc_HP`. A module's name tags every layer in the module, as exporters put it in
front of their names.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

Tag: TypeAlias = Literal["hp", "cpu"]
_WORD = re.compile(r"[^/_]_+(hp|cpu)(?![0-9A-Za-z])")
_ENDING = re.compile(r"(?<=[^/_])(?:_+(?:hp|cpu))+$")


def tags_in_name(name: str) -> dict[Tag, str]:
    """The tags in a layer's name, each with the part of the name up to and with its word."""
    tags: dict[Tag, str] = {}
    position = 0
    while match := _WORD.search(name, position):
        tag: Tag = "hp" if match.group(1) == "hp" else "cpu"
        tags.setdefault(tag, name[: match.end()])
        position = match.end() - 1
    return tags


def split_tags(name: str) -> tuple[str, str]:
    """A name, and the tags that it ends with: `fc_hp_cpu` is `fc` and `_hp_cpu`; `conv_hp_1` ends with none.

    Vendors' compilers read tags at the end of a layer's name alone.
    """
    match = _ENDING.search(name)
    return (name, "") if match is None else (name[: match.start()], match.group())

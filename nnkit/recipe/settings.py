"""`--set key=value`: one value of a recipe, given beside its file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from nnkit.errors import UsageError
from nnkit.recipe import scalars
from nnkit.recipe.problems import InvalidRecipeError, KeyPath, Place
from nnkit.recipe.yaml_loader import CORE_PREFIX, compose

TARGETS = "targets"
"""The key whose list of names chooses targets."""


@dataclass(frozen=True)
class Setting:
    """A value for a key of the recipe, both as written: `targets.npu.precision` and `int8`.

    The text is YAML: numbers, lists and sections can be given. Paths in it are relative to the working folder, or to
    that of the file where it is written.
    """

    key: str
    text: str
    written: Place | None = None

    @property
    def display(self) -> str:
        """How messages name it."""
        return f"--set {self.key}" if self.written is None else str(self.written)

    @property
    def option(self) -> str:
        """What to write behind `--set` for it, the same however its value was written or given."""
        if not self.text.strip():
            return f"{self.key}="
        value = yaml.safe_dump(
            plain(compose(self.text, self.display)), default_flow_style=True, allow_unicode=True, width=10_000
        )
        return f"{self.key}={value.removesuffix('...' + chr(10)).strip()}"

    def path(self, data: Any) -> KeyPath:
        """The way to the value in a recipe's data; a key that holds a dot itself is found where it is written."""
        parts = self.key.split(".")
        path: list[str | int] = []
        while parts:
            taken = 1
            if isinstance(data, dict):
                taken = next((n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in data), 1)
            part: str | int = ".".join(parts[:taken])
            if isinstance(data, list) and str(part).isdecimal():
                part = int(part)
            inside = isinstance(data, dict) and part in data
            inside |= isinstance(data, list) and isinstance(part, int) and part < len(data)
            data = data[part] if inside else None
            path.append(part)
            parts = parts[taken:]
        return tuple(path)


def plain(node: yaml.Node) -> Any:
    """The value of a YAML node: lists, dictionaries and scalars."""
    if isinstance(node, yaml.SequenceNode):
        return [plain(item) for item in node.value]
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): plain(item) for key, item in node.value}
    return node.value if node.tag == f"{CORE_PREFIX}str" else scalars.resolve(node.value)


def listed(setting: Setting) -> list[Any]:
    """The items of a list; empty for what is none, or cannot be read (which loading says)."""
    try:
        node = compose(setting.text, setting.display)
    except InvalidRecipeError:
        return []
    return [plain(item) for item in node.value] if isinstance(node, yaml.SequenceNode) else []


def listed_targets(setting: Setting) -> list[str]:
    """The names of `targets=[a, b]`; empty for any other setting."""
    items = listed(setting) if setting.key == TARGETS else []
    return items if all(isinstance(item, str) for item in items) else []


def parse_setting(text: str) -> Setting:
    """`key=value`. Raises UsageError for a text without `=` or with an empty key."""
    key, equals, value = text.partition("=")
    if not equals or not all(part.strip() for part in key.split(".")):
        raise UsageError(
            f"{text!r} sets nothing",
            where="--set",
            remedy="write KEY=VALUE with the keys' names and dots between, such as verify.gates.cosine=0.999",
        )
    return Setting(key.strip(), value)


def parse_settings(texts: Sequence[str]) -> tuple[Setting, ...]:
    """As `parse_setting`, of several; a key that is given twice is refused. Raises UsageError."""
    settings = tuple(parse_setting(text) for text in texts)
    keys = [setting.key for setting in settings]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise UsageError(f"{twice} is set twice", where="--set", remedy="keep one of the two")
    return settings


def settings_beside(settings: Sequence[Setting]) -> tuple[str, ...]:
    """`KEY=VALUE` of those that stand in no file: the command line's."""
    return tuple(setting.option for setting in settings if setting.written is None)


def settings_of(values: Mapping[str, Any]) -> tuple[Setting, ...]:
    """As `parse_settings`, of Python's values (numbers, texts, truth values, None, lists, dictionaries)."""
    import json

    return parse_settings([f"{key}={json.dumps(value, default=str)}" for key, value in values.items()])

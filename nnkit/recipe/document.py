"""A recipe file and its fragments as plain values, with the place of every key and value.

Anchors and `<<` merges are resolved, `!include FILE` is replaced by that file's content, and variables in text
are expanded. What can be reported together is: duplicate keys, unset variables and the like are collected.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from nnkit.reading import check_name, is_broken_link
from nnkit.recipe import scalars
from nnkit.recipe.problems import InvalidRecipeError, KeyPath, Place, Problem, in_order, shown
from nnkit.recipe.settings import TARGETS, Setting, listed_targets, settings_beside
from nnkit.recipe.variables import Expansion, VariableError, expand
from nnkit.recipe.yaml_loader import (
    CORE_PREFIX,
    INCLUDE_TAG,
    MAX_CHARACTERS,
    MAX_DEPTH,
    MAX_NODES,
    MERGE_TAG,
    compose,
    other_recipe,
    read_text,
)

MAX_FILES = 100


@dataclass(frozen=True, eq=False)
class Document:
    """What a recipe file says, before the schema.

    Attributes:
        file: the file as named by the user.
        data: mappings (`dict` with text keys), lists, text, numbers, true/false and None.
        values: the place of each value.
        keys: the place of each mapping key.
        raw: scalars as written, where that is not `str(value)`: numbers, and text with variables.
        expansions: the text values that had a `$` in them.
        sources: every file read, the recipe first, then its fragments.
        settings: `KEY=VALUE` of what was set beside the files.
    """

    file: str
    data: Any
    values: Mapping[KeyPath, Place]
    keys: Mapping[KeyPath, Place]
    raw: Mapping[KeyPath, str]
    expansions: Mapping[KeyPath, Expansion]
    sources: tuple[Path, ...]
    settings: tuple[str, ...]

    def place(self, path: KeyPath, *, key: bool = False) -> Place:
        """The place of a value (or, with `key`, of its key); what is not written has its parent's place."""
        for end in range(len(path), -1, -1):
            first, second = (self.keys, self.values) if key or end < len(path) else (self.values, self.keys)
            written = first.get(path[:end]) or second.get(path[:end])
            if written:
                return written
        return self.values[()]


def load_document(
    path: str | os.PathLike[str], *, environ: Mapping[str, str] | None = None, settings: Sequence[Setting] = ()
) -> Document:
    """Read a recipe file and all it includes.

    Args:
        path: the recipe file.
        environ: the variables for `${VAR}`; the process environment by default.
        settings: values that replace the file's, or stand where it has none.

    Raises:
        InvalidRecipeError: unreadable file, YAML syntax, duplicate keys, unset variables, cyclic includes, a
            tag that is not allowed, or a limit exceeded.
        UserFileError: the file's name is no text.
    """
    builder = _Builder(os.environ if environ is None else environ)
    display = os.fspath(path)
    check_name(display, "the recipe")
    data = builder.build_root(display)
    for setting in sorted(settings, key=lambda each: each.key.count(".")):  # a section before what is in it
        names = listed_targets(setting)
        if names and isinstance(data, dict):
            builder.choose_targets(setting, names, data)
        else:
            builder.put(setting, data)
    if builder.problems:
        raise InvalidRecipeError(in_order(builder.problems, display), file=display)
    return Document(
        file=display,
        data=data,
        values=builder.values,
        keys=builder.keys,
        raw=builder.raw,
        expansions=builder.expansions,
        sources=tuple(builder.real_paths),
        settings=settings_beside(settings),
    )


def folder_of(text: str, place: Place, *, from_environment: bool) -> Path:
    """The folder that a path in a recipe is relative to.

    A path is relative to the file it is written in. One that begins with an environment variable is relative
    to the working folder, as on the command line where the variable was set; where nothing is found there, to
    the file it is written in.
    """
    here = Path(place.folder)
    if not from_environment:
        return here
    there = Path.cwd()
    return here if not _head_exists(there / text) and _head_exists(here / text) else there


def _head_exists(path: Path) -> bool:
    """Whether the part of a path before its first glob character exists."""
    parts = path.parts
    plain = next((i for i, part in enumerate(parts) if any(c in part for c in "*?[")), len(parts))
    return os.path.exists(Path(*parts[:plain]))


@dataclass(frozen=True)
class _Entry:
    """One key of a mapping, own or merged."""

    key: str
    key_node: yaml.Node
    value_node: yaml.Node


@dataclass(eq=False)
class _Builder:
    environ: Mapping[str, str]
    problems: list[tuple[Place, Problem]] = field(default_factory=list)
    values: dict[KeyPath, Place] = field(default_factory=dict)
    keys: dict[KeyPath, Place] = field(default_factory=dict)
    raw: dict[KeyPath, str] = field(default_factory=dict)
    expansions: dict[KeyPath, Expansion] = field(default_factory=dict)
    real_paths: dict[Path, yaml.Node] = field(default_factory=dict)
    folders: dict[str, str] = field(default_factory=dict)
    """Absolute folder of each file, by the file's displayed name."""
    include_chain: list[tuple[Path, str]] = field(default_factory=list)
    open_nodes: set[int] = field(default_factory=set)
    set_here: set[str] = field(default_factory=set)
    """Displayed names of values from the command line, which have no lines."""
    count: int = 0
    characters: int = 0

    def build_root(self, display: str) -> Any:
        def fail(reason: str, remedy: str) -> Exception:
            return InvalidRecipeError([Problem(display, reason, remedy)], file=display)

        real, node = self._read(Path(display), display, fail)
        self.include_chain.append((real, display))
        return self._value(node, ())

    def put(self, setting: Setting, data: Any) -> None:
        """Replace or add one value; sections on the way to it are made where they are not there."""
        display = setting.display
        self.folders[display] = os.getcwd() if setting.written is None else setting.written.folder
        self.set_here.add(display)
        place = Place(display, 0, 0, self.folders[display])
        try:
            node = compose(setting.text if setting.text.strip() else "null", display)
        except InvalidRecipeError as error:
            self.problems += [(place, Problem(display, each.reason, each.remedy)) for each in error.problems]
            return
        path = setting.path(data)
        parent = data
        for depth, part in enumerate(path[:-1], 1):
            below = parent.get(part) if isinstance(parent, dict) else _item(parent, part)
            if below is None and isinstance(parent, dict):
                below = parent[str(part)] = {}
                self.keys[path[:depth]] = self.values[path[:depth]] = place
            parent = below
        if not isinstance(parent, dict) and _item(parent, path[-1]) is None:
            reason = f"'{setting.key}' is below a value that has no keys"
            self.problems.append((place, Problem(display, reason, "name a key of a section, or a list's position")))
            return
        for written in (self.values, self.keys, self.raw, self.expansions):
            for old in [old for old in written if old[: len(path)] == path]:
                del written[old]
        self.keys[path] = place
        parent[path[-1]] = self._value(node, path)

    def choose_targets(self, setting: Setting, names: Sequence[str], data: dict[str, Any]) -> None:
        """`targets=[a, b]`: those of them that the recipe has keep their options, the others have the defaults."""
        display = setting.display
        place = Place(display, 0, 0, os.getcwd() if setting.written is None else setting.written.folder)
        section = data.get(TARGETS)
        written: dict[str, Any] = section if isinstance(section, dict) else {}
        data[TARGETS] = {name: written.get(name) for name in names}
        self.keys[(TARGETS,)] = self.values[(TARGETS,)] = place
        for name in names:
            if name not in written:
                self.keys[TARGETS, name] = self.values[TARGETS, name] = place

    def _read(self, path: Path, display: str, fail: Any) -> tuple[Path, yaml.Node]:
        """The file's canonical path and root node; a file is parsed once however often it is included."""
        try:
            real = path.resolve()
        except (OSError, RuntimeError, ValueError):
            why = ": its links lead in a circle" if is_broken_link(path) else ""
            raise fail(f"'{shown(display)}' cannot be read{why}", "name the file itself, without links") from None
        self.folders.setdefault(display, str(path.absolute().parent))
        if real not in self.real_paths:
            if len(self.real_paths) >= MAX_FILES:
                raise fail(f"more than {MAX_FILES} files are included", "include fewer files")
            included = bool(self.real_paths)  # which may be a stranger's: nothing of the folder is told
            absent = "check the path" if included or os.path.exists(path) else other_recipe(path)
            self.real_paths[real] = compose(read_text(path, display, fail, absent), display)
        return real, self.real_paths[real]

    def _place(self, node: yaml.Node) -> Place:
        mark = node.start_mark
        if mark.name in self.set_here:
            return Place(mark.name, 0, 0, self.folders[mark.name])
        return Place(mark.name, mark.line + 1, mark.column + 1, self.folders[mark.name])

    def _fail(self, node: yaml.Node, reason: str, remedy: str) -> InvalidRecipeError:
        """The error for what cannot be read past, together with what was found before it."""
        place, file = self._place(node), self.include_chain[0][1]
        placed = [*self.problems, (place, Problem(str(place), reason, remedy))]
        return InvalidRecipeError(in_order(placed, file), file=file)

    def _report(self, node: yaml.Node, reason: str, remedy: str) -> None:
        place = self._place(node)
        self.problems.append((place, Problem(str(place), reason, remedy)))

    def _spend(self, node: yaml.Node, values: int) -> None:
        """Bound the work that aliases of aliases can ask for."""
        self.count += values
        if self.count > MAX_NODES:
            raise self._fail(node, f"the recipe expands to more than {MAX_NODES:,} values", "use fewer aliases")
        self.characters += len(node.value) if isinstance(node, yaml.ScalarNode) else 0
        if self.characters > MAX_CHARACTERS:
            reason = f"the recipe expands to more than {MAX_CHARACTERS:,} characters"
            raise self._fail(node, reason, "use fewer aliases, or shorter texts")

    def _value(self, node: yaml.Node, path: KeyPath) -> Any:
        self._spend(node, 1)
        if len(path) > MAX_DEPTH:
            raise self._fail(node, f"sections are nested more than {MAX_DEPTH} deep", "make the recipe flatter")
        if node.tag == INCLUDE_TAG:
            with self._included(node) as root:
                return self._value(root, path)
        self.values[path] = self._place(node)
        with self._opened(node):
            if isinstance(node, yaml.MappingNode):
                self._check_tag(node, "map")
                return self._mapping(node, path)
            if isinstance(node, yaml.SequenceNode):
                self._check_tag(node, "seq")
                return [self._value(item, (*path, i)) for i, item in enumerate(node.value)]
            return self._scalar(node, path)

    @contextmanager
    def _opened(self, node: yaml.Node) -> Iterator[None]:
        """Refuse an anchor that contains itself."""
        if id(node) in self.open_nodes:
            raise self._fail(node, "an anchor contains an alias to itself", "remove the alias")
        self.open_nodes.add(id(node))
        try:
            yield
        finally:
            self.open_nodes.remove(id(node))

    @contextmanager
    def _included(self, node: yaml.Node) -> Iterator[yaml.Node]:
        """The root node of the file that an `!include` node names."""
        if not isinstance(node, yaml.ScalarNode) or not node.value.strip():
            raise self._fail(node, "!include needs the name of one file", "write `!include fragment.yaml`")
        if "://" in node.value:
            raise self._fail(node, "!include reads files, not URLs", "copy the fragment beside the recipe")
        place = self._place(node)
        try:
            expansion = expand(node.value, self.environ)
        except VariableError as error:
            raise self._fail(node, error.reason, error.remedy) from None
        folder = folder_of(expansion.text, place, from_environment=expansion.from_environment)
        target = folder / expansion.text
        display = os.path.join(os.path.dirname(place.file), expansion.text)
        if target.absolute() != Path(display).absolute():
            display = expansion.text  # relative to the working folder
        real, root = self._read(target, display, lambda reason, remedy: self._fail(node, reason, remedy))
        chain = [name for _, name in self.include_chain]
        if real in (known for known, _ in self.include_chain):
            loop = " -> ".join([*chain, display])
            raise self._fail(node, f"the includes form a circle: {loop}", "remove one of these !include lines")
        self.include_chain.append((real, display))
        try:
            yield root
        finally:
            self.include_chain.pop()

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for entry in self._entries(node, frozenset()):
            inner = (*path, entry.key)
            self.keys[inner] = self._place(entry.key_node)
            result[entry.key] = self._value(entry.value_node, inner)
        return result

    def _entries(self, node: yaml.MappingNode, merging: frozenset[int]) -> list[_Entry]:
        """A mapping's own keys in their order, then those merged with `<<` that it does not have itself."""
        merging = self._merge_step(node, merging)
        own: dict[str, _Entry] = {}
        merged: list[_Entry] = []
        for key_node, value_node in node.value:
            if key_node.tag == MERGE_TAG:
                merged.extend(self._merged(value_node, merging))
                continue
            key = self._key(key_node)
            if key is None:
                continue
            if key in own:
                first = self._place(own[key].key_node)
                reason = f"the key '{shown(key)}' is given twice, first in line {first.line}"
                self._report(key_node, reason, "keep one of the two")
                continue
            own[key] = _Entry(key, key_node, value_node)
        for entry in merged:
            own.setdefault(entry.key, entry)
        return list(own.values())

    def _merged(self, node: yaml.Node, merging: frozenset[int]) -> list[_Entry]:
        if node.tag == INCLUDE_TAG:
            with self._included(node) as root:
                return self._merged(root, merging)
        if isinstance(node, yaml.MappingNode):
            return self._entries(node, merging)
        if isinstance(node, yaml.SequenceNode):
            merging = self._merge_step(node, merging)
            return [entry for item in node.value for entry in self._merged(item, merging)]
        raise self._fail(node, "'<<' can merge only sections", "write `<<: *anchor` or `<<: !include FILE`")

    def _merge_step(self, node: yaml.CollectionNode, merging: frozenset[int]) -> frozenset[int]:
        """Enter a node on the way of a merge: not twice, not too deep."""
        if id(node) in merging:
            raise self._fail(node, "a '<<' merge contains itself", "remove the alias")
        if len(merging) > MAX_DEPTH:
            raise self._fail(node, f"'<<' merges are nested more than {MAX_DEPTH} deep", "merge fewer anchors")
        self._spend(node, len(node.value))
        return merging | {id(node)}

    def _key(self, node: yaml.Node) -> str | None:
        """A key is text as written (`0:` is the key '0'), because inputs may have any name."""
        if not isinstance(node, yaml.ScalarNode) or not node.tag.startswith(CORE_PREFIX):
            self._report(node, "a key must be plain text", "write `name: value`")
            return None
        if not node.value:
            self._report(node, "a key is missing before the ':'", "write `name: value`")
            return None
        if _has_surrogate(node.value):
            self._report(node, "a key is not valid text", "remove the \\ud800-\\udfff escape")
            return None
        return str(node.value)

    def _check_tag(self, node: yaml.Node, kind: str) -> None:
        if node.tag != CORE_PREFIX + kind:
            self._tag_refused(node)

    def _tag_refused(self, node: yaml.Node) -> None:
        tag = node.tag.replace(CORE_PREFIX, "!!")
        self._report(node, f"the tag '{shown(tag)}' is not allowed here", "remove it; a recipe is plain data")

    def _scalar(self, node: yaml.Node, path: KeyPath) -> scalars.Scalar:
        kind = node.tag.removeprefix(CORE_PREFIX)
        if not node.tag.startswith(CORE_PREFIX) or kind not in ("str", "int", "float", "bool", "null"):
            self._tag_refused(node)
            return None
        if kind != "str":
            self.raw[path] = node.value
            try:
                return scalars.value_of(node.value, kind)
            except ValueError as error:
                self._report(node, f"'{shown(node.value)}' is {error}", "correct it, or put it in quotes")
                return None
        if _has_surrogate(node.value):
            self._report(node, "the text holds half a character", "remove the \\ud800-\\udfff escape")
            return None
        return self._text(node, path)

    def _text(self, node: yaml.Node, path: KeyPath) -> str:
        text = str(node.value)
        if "$" not in text:
            return text
        try:
            expansion = expand(text, self.environ)
        except VariableError as error:
            self._report(node, error.reason, error.remedy)
            return text
        self.raw[path] = text
        self.expansions[path] = expansion
        return expansion.text


def _item(parent: Any, part: str | int) -> Any:
    """The item of a list at a position; None where there is no such item, or no list."""
    return parent[part] if isinstance(parent, list) and isinstance(part, int) and part < len(parent) else None


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= c <= "\udfff" for c in text)

"""What pydantic found wrong, in plain words: each finding at its place in the data, with what would be right."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from nnkit.did_you_mean import did_you_mean, nearest, suggestion
from nnkit.recipe.annotations import Spot, spot_at
from nnkit.recipe.base import faults_of
from nnkit.recipe.problems import KeyPath, shown
from nnkit.recipe.scalars import resolve
from nnkit.recipe.types import RecipePath

_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "dict_type": "a section of keys",
    "mapping_type": "a section of keys",
    "model_type": "a section of keys",
    "model_attributes_type": "a section of keys",
    "dataclass_type": "a section of keys",
    "none_required": "null",
    # Only in lax mode, see `nnkit.recipe.loading`.
    "int_parsing": "a whole number",
    "float_parsing": "a number",
    "bool_parsing": "true or false",
}
_BOUNDS = {
    "greater_than": ("gt", "greater than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}
_CHOICES = ("literal_error", "enum")


class Finding(NamedTuple):
    """One thing wrong: the way to it in the data, whether its key is meant, what is wrong, what is right.

    written, answer: a misspelt word and the one that was probably meant.
    """

    path: KeyPath
    at_key: bool
    reason: str
    remedy: str
    written: str = ""
    answer: str = ""


@dataclass(frozen=True, eq=False)
class _Case:
    """One error of pydantic with its context in the data and in the models."""

    error: ErrorDetails
    model: type[BaseModel]
    data: Any
    path: KeyPath
    raw: str | None
    name: str

    @property
    def type(self) -> str:
        return self.error["type"]

    @property
    def context(self) -> dict[str, Any]:
        return self.error.get("ctx") or {}

    @property
    def value(self) -> Any:
        return value_at(self.data, self.path)

    @property
    def label(self) -> str:
        """The value's key, with indices: `'shape[2]'`."""
        return _label(self.path) or (f"'{self.name}'" if self.name else "the recipe")

    @property
    def is_mismatch(self) -> bool:
        """Whether the kind of value is wrong, so that another member of a union may be meant."""
        return self.type in _EXPECTED or self.type in _CHOICES

    def spot(self, path: KeyPath) -> Spot | None:
        return spot_at(self.model, self.data, path)

    def example(self) -> str:
        """An example of the nearest field that has one, as it is written in a recipe; or nothing."""
        for end in range(len(self.path), 0, -1):
            key, spot = self.path[end - 1], self.spot(self.path[:end])
            if isinstance(key, str) and spot and spot.field:
                return _example(key, spot.field)
        return ""


def _label(path: KeyPath) -> str:
    """The last key of a path and the indices behind it: `'shape[2]'`; empty where it has no key."""
    keys = [i for i, part in enumerate(path) if isinstance(part, str)]
    if not keys:
        return ""
    indices = "".join(f"[{part}]" for part in path[keys[-1] + 1 :])
    return f"'{shown(str(path[keys[-1]]))}{indices}'"


def _example(key: str, field: FieldInfo) -> str:
    if not field.examples:
        return ""
    return f"`{key}: {_flow(field.examples[0])}`"


def _flow(value: Any) -> str:
    """A value as YAML on one line."""
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10_000)
    return text.removesuffix("...\n").strip()


def path_in(data: Any, location: Sequence[str | int]) -> KeyPath:
    """pydantic's location without what is not in the data: tags of unions, names of missing keys."""
    path: list[str | int] = []
    for part in location:
        is_key = isinstance(data, dict) and part in data
        if is_key or (isinstance(data, list) and isinstance(part, int) and part < len(data)):
            path.append(part)
            data = data[part]
    return tuple(path)


def value_at(data: Any, path: KeyPath) -> Any:
    """The value at a path that exists in the data."""
    for part in path:
        data = data[part]
    return data


def explain(
    errors: Sequence[ErrorDetails], model: type[BaseModel], data: Any, raw: Mapping[KeyPath, str], name: str = ""
) -> list[Finding]:
    """All findings, without those that only say that another member of a union was meant.

    Args:
        errors: from `ValidationError.errors()`.
        model: the model that refused the data.
        data: what it refused.
        raw: scalars as written, by path, where that is not `str(value)`.
        name: the key of the data, for messages about it as a whole; empty for the recipe.
    """
    paths = [path_in(data, error["loc"]) for error in errors]
    cases = [_Case(error, model, data, path, raw.get(path), name) for error, path in zip(errors, paths, strict=True)]
    beneath = {path[:end] for path in paths for end in range(len(path))}
    right_kind = {case.path for case in cases if not case.is_mismatch}
    mismatches: dict[KeyPath, list[_Case]] = {}
    findings: list[Finding] = []
    for case in cases:
        if not case.is_mismatch:
            findings.extend(_value_findings(case))
        elif case.path not in beneath and case.path not in right_kind:
            mismatches.setdefault(case.path, []).append(case)
    findings.extend(_mismatch(alternatives) for alternatives in mismatches.values())
    return list(dict.fromkeys(findings))


def _value_findings(case: _Case) -> list[Finding]:
    discriminator = str(case.context.get("discriminator", "")).strip("'")
    match case.type:
        case "nnkit_recipe":
            return [Finding((*case.path, *f.at), False, f.reason, f.remedy) for f in faults_of(case.context)]
        case "extra_forbidden":
            return [_unknown_key(case)]
        case "missing":
            return [_missing(case)]
        case "union_tag_not_found":
            spot = case.spot(case.path)
            kinds = f": {', '.join(spot.tags(discriminator))}" if spot else ""
            remedy = f"add `{discriminator}: ...`, which says what this is{kinds}"
            return [Finding(case.path, False, f"the key '{discriminator}' is missing", remedy)]
        case "union_tag_invalid":
            known = _words(str(case.context.get("expected_tags", "")))
            return [_wrong_choice((*case.path, discriminator), case.value.get(discriminator), known)]
    return [Finding(case.path, False, *_wrong_value(case))]


def _unknown_key(case: _Case) -> Finding:
    key = str(case.path[-1])
    parent = case.spot(case.path[:-1])
    known = parent.known_keys(value_at(case.data, case.path[:-1])) if parent else []
    meant = nearest(key, known) or ""
    return Finding(case.path, True, f"unknown key '{shown(key)}'", suggestion(key, known, "known keys"), key, meant)


def _missing(case: _Case) -> Finding:
    key = case.error["loc"][-1]
    if isinstance(key, int):
        example = case.example()
        remedy = f"for example {example}" if example else "add the items that are missing"
        return Finding(case.path, False, f"{case.label} has too few items ({len(case.value)})", remedy)
    spot = case.spot((*case.path, key))
    field = spot.field if spot else None
    line = (_example(key, field) if field else "") or f"`{key}: ...`"
    meaning = f" ({field.description.rstrip('.')})" if field and field.description else ""
    return Finding(case.path, True, f"the key '{key}' is missing", f"add {line}{meaning}")


def _wrong_choice(path: KeyPath, value: Any, known: list[str]) -> Finding:
    if path == ("nnkit",):
        reason = f"this nnkit reads recipes of format {known[0]}, but {_given(value, None)} was given"
        return Finding(path, False, reason, f"write `nnkit: {known[0]}`, or install the nnkit that the recipe needs")
    label = _label(path) or "the recipe"
    choices = ", ".join(known[:-1]) + f" or {known[-1]}" if len(known) > 1 else "".join(known)
    remedy = (did_you_mean(value, known) if isinstance(value, str) else "") or f"write {choices}"
    meant = (nearest(value, known) or "") if isinstance(value, str) else ""
    return Finding(
        path,
        False,
        f"{label} must be {choices}, but {_given(value, None)} was given",
        remedy,
        str(value) if meant else "",
        meant,
    )


def _mismatch(alternatives: Sequence[_Case]) -> Finding:
    """The finding for a value of the wrong kind, which every member of a union refused."""
    case = alternatives[0]
    choices = [w for c in alternatives if c.type in _CHOICES for w in _words(str(c.context.get("expected", "")))]
    kinds = list(dict.fromkeys(_EXPECTED[c.type] for c in alternatives if c.type in _EXPECTED))
    if choices and (not kinds or (isinstance(case.value, str) and nearest(case.value, choices))):
        return _wrong_choice(case.path, case.value, choices)
    wanted = " or ".join([*kinds, *(f"'{choice}'" for choice in choices)])
    reason = f"{case.label} must be {wanted}, but {_given(case.value, case.raw)} was given"
    example = case.example()
    remedy = _conversion(case, wanted) or (f"for example {example}" if example else f"write {wanted}")
    return Finding(case.path, False, reason, remedy)


def _conversion(case: _Case, wanted: str) -> str:
    """The remedy where the value is right but for its form."""
    value = case.value
    if value is None:
        return f"write {wanted}, or remove the key" if len(case.path) > 0 else ""
    if wanted == "true or false" and str(value).lower() in ("yes", "on", "y", "1"):
        return "write true"
    if wanted == "true or false" and str(value).lower() in ("no", "off", "n", "0"):
        return "write false"
    if "number" in wanted and isinstance(value, str):
        number = resolve(value)
        if isinstance(number, int | float) and not isinstance(number, bool):
            return f"write {shown(value)} without quotes"
    if wanted == "a whole number" and isinstance(value, float) and value.is_integer():
        return f"write {int(value)}"
    if wanted == "text" and isinstance(value, int | float) and not case.example():
        return f"put it in quotes: '{shown(case.raw or str(value))}'"
    if wanted.startswith("a list") and isinstance(value, str):
        return f"write {_flow([shown(value)])}"
    return ""


def _wrong_value(case: _Case) -> tuple[str, str]:
    """Reason and remedy for a value of the right kind that is out of bounds or ill-formed."""
    given, context, example = _given(case.value, case.raw), case.context, case.example()
    hint = f"for example {example}" if example else ""
    if case.type in _BOUNDS:
        key, words = _BOUNDS[case.type]
        bound = f"{words} {context[key]:,}" if isinstance(context[key], int) else f"{words} {context[key]:g}"
        return f"{case.label} must be {bound}, but {given} was given", f"write a number that is {bound}"
    if case.type in ("too_short", "too_long", "string_too_short", "string_too_long"):
        unit = "character" if case.type.startswith("string") else "item"
        limit = context.get("min_length" if case.type.endswith("short") else "max_length", 0)
        wanted = (
            f"{'at least' if case.type.endswith('short') else 'at most'} {limit} {unit}{'' if limit == 1 else 's'}"
        )
        count = len(case.value) if isinstance(case.value, str | list | dict) else 1
        return f"{case.label} must have {wanted}, but has {count}", hint or f"give {wanted}"
    if case.type == "string_pattern_mismatch":
        pattern = f"text that matches {context.get('pattern')}"
        return f"{case.label} has not the right form: {given} was given", hint or f"write {pattern}"
    if case.type == "finite_number":
        return f"{case.label} must be a finite number", hint or "write a finite number"
    said = str(case.error["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    said = re.sub(r"^Input should be", f"{case.label} must be", said)
    return f"{said}; {given} was given", hint or f"correct the value of {case.label}"


def _words(text: str) -> list[str]:
    """The choices in pydantic's "'a', 'b' or 'c'"."""
    return re.findall(r"'([^']*)'", text) or [word for word in re.split(r", | or ", text) if word]


def _given(value: Any, raw: str | None) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"the number {shown(raw or str(value))}"
    if isinstance(value, str):
        return f"the text '{shown(value)}'"
    if isinstance(value, RecipePath):
        return f"the path '{shown(value.text)}'"
    return "a list" if isinstance(value, list) else "a section of keys"

"""`load_recipe`: from a file to a valid `Recipe`, or to one error that names everything wrong with it."""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from nnkit.did_you_mean import nearest, suggestion
from nnkit.recipe.anchoring import anchored
from nnkit.recipe.base import RecipeModel
from nnkit.recipe.deployment import DEPLOYMENT
from nnkit.recipe.document import Document, load_document
from nnkit.recipe.explain import Finding, explain, path_in, value_at
from nnkit.recipe.placed import Placed
from nnkit.recipe.problems import InvalidRecipeError, KeyPath, Problem, in_order
from nnkit.recipe.scalars import resolve
from nnkit.recipe.schema import Recipe, RecipeBody, target_faults
from nnkit.recipe.sections import TargetOptionsBase
from nnkit.recipe.settings import Setting

_Model = TypeVar("_Model", bound=BaseModel)
_Recipe = TypeVar("_Recipe", bound=Placed)

VARIANT_NAME = re.compile(r"[^@/\\]+(@[A-Za-z0-9]([A-Za-z0-9_.-]{0,38}[A-Za-z0-9])?)?")
"""Keys of `targets`: a target, or one of several builds for it."""

_MOST_RULES = 400
"""Unknown rules that are told; a search for what each was meant to be takes a millisecond."""

_LISTS = frozenset({"tuple_type", "set_type", "frozen_set_type"})

TargetModels = Mapping[str, type[TargetOptionsBase]]
"""The options model of each installed target, by target name."""


def load_recipe(
    path: str | os.PathLike[str],
    *,
    target_models: TargetModels,
    known_rules: Collection[str] | None = None,
    environ: Mapping[str, str] | None = None,
    settings: Sequence[Setting] = (),
) -> Recipe:
    """Read and validate a recipe.

    Args:
        path: the recipe file.
        target_models: options models of the installed targets; others are refused.
        known_rules: names of the rewrite rules; `restructure` is checked against them where given.
        environ: variables for `${VAR}`; the process environment by default.
        settings: values that replace the file's, or stand where it has none.

    Raises:
        InvalidRecipeError: anything wrong with the recipe; all that is wrong at once where that can be told.
    """
    document = load_document(path, environ=environ, settings=settings)
    return validate(document, target_models=target_models, known_rules=known_rules)


def validate(
    document: Document, *, target_models: TargetModels, known_rules: Collection[str] | None = None
) -> Recipe:
    """The recipe that a document holds; arguments and errors as for `load_recipe`."""
    if not isinstance(document.data, dict):
        problem = Problem(str(document.place(())), "a recipe is a section of keys", "begin with `nnkit: 1`")
        raise InvalidRecipeError([problem], file=document.file)
    if DEPLOYMENT in document.data:
        reason = "this is the recipe of a deployment: it has no network of its own"
        remedy = "`nnkit run`, `plan` and `check` take it, alone; elsewhere name the recipe of one of its networks"
        raise InvalidRecipeError(
            [Problem(str(document.place((DEPLOYMENT,), key=True)), reason, remedy)], file=document.file
        )
    findings: list[Finding] = []
    body = read_section(RecipeBody, document, (), findings, explain_with=Recipe, without=("targets",))
    targets = read_targets(document, target_models, findings)
    if body is not None:
        for name, options in targets.items():
            findings += [
                Finding(("targets", name, *f.at), False, f.reason, f.remedy) for f in target_faults(body, options)
            ]
    findings += _unknown_rules(document, known_rules)
    if findings or body is None:
        raise InvalidRecipeError(problems_of(document, findings), file=document.file)
    return assembled(Recipe, document, body, targets)


def assembled(
    kind: type[_Recipe], document: Document, body: RecipeModel, targets: Mapping[str, TargetOptionsBase]
) -> _Recipe:
    """The recipe of its checked sections, which knows where in the document each of them stands."""
    body = anchored(body, document)
    fields = {name: getattr(body, name) for name in type(body).model_fields}
    options = {name: anchored(target, document, ("targets", name)) for name, target in targets.items()}
    recipe = kind.model_construct({*body.model_fields_set, "targets"}, **fields, targets=options)
    recipe._places = document.values
    recipe._file = document.file
    recipe._sources = document.sources
    recipe._settings = document.settings
    return recipe


def read_targets(
    document: Document, target_models: TargetModels, findings: list[Finding]
) -> dict[str, TargetOptionsBase]:
    at: KeyPath = ("targets",)
    installed = sorted(target_models)
    example = f"`targets: {{{installed[0] if installed else 'NAME'}: {{}}}}`"
    if "targets" not in document.data:
        findings.append(Finding((), True, "the key 'targets' is missing", f"add {example}"))
        return {}
    section = document.data["targets"]
    if not isinstance(section, dict) or not section:
        written = [name for name in (section if isinstance(section, list) else [section]) if name in installed]
        if written:
            example = f"`targets: {{{', '.join(f'{name}: {{}}' for name in written)}}}`"
        reason = "'targets' names no target" if not section else "'targets' must be a section of keys"
        findings.append(Finding(at, False, reason, f"write {example}"))
        return {}
    targets: dict[str, TargetOptionsBase] = {}
    for name, written in section.items():
        if VARIANT_NAME.fullmatch(name) is None:
            remedy = "write the target's name, or NAME@VARIANT with letters, digits, `_`, `-` or `.`"
            findings.append(Finding((*at, name), True, f"'{name}' cannot name a build", remedy))
            continue
        if name not in target_models:
            remedy = suggestion(name, installed, "installed targets")
            meant = nearest(name, installed) or ""
            findings.append(Finding((*at, name), True, f"no target '{name}' is installed", remedy, name, meant))
            continue
        model = target_models[name]
        options = read_section(model, document, (*at, name), findings, explain_with=model, empty=written is None)
        if options is not None:
            targets[name] = options
    return targets


def read_section(
    model: type[_Model],
    document: Document,
    at: KeyPath,
    findings: list[Finding],
    *,
    explain_with: type[BaseModel],
    without: Collection[str] = (),
    empty: bool = False,
) -> _Model | None:
    """Validate the section at a path of the document; on failure None, and `findings` grows.

    Validation is strict, in pydantic's JSON mode: lists become tuples, but text does not become a number, nor a
    number a truth value. Only text made from variables is read again as if it stood there unquoted, where the
    schema refuses it as text. A model with a `before` validator sees Python's lists, which strict mode does not
    take for tuples or sets: such a model is validated in lax mode.
    """
    section = {} if empty else copy.deepcopy(value_at(document.data, at))
    if isinstance(section, dict):
        section = {key: value for key, value in section.items() if key not in without}
    strict = True
    while True:
        try:
            return model.model_validate_json(json.dumps(section), strict=strict)
        except ValidationError as error:
            errors = error.errors(include_url=False)
        if strict and any(e["type"] in _LISTS and isinstance(e["input"], list) for e in errors):
            strict = False
            continue
        reread = [_reread(section, path_in(section, e["loc"]), document, at) for e in errors]
        if not any(reread):
            break
    raw = {path[len(at) :]: text for path, text in document.raw.items() if path[: len(at)] == at}
    for finding in explain(errors, explain_with, section, raw, name=str(at[-1]) if at else ""):
        findings.append(finding._replace(path=(*at, *finding.path)))
    return None


def _reread(section: Any, path: KeyPath, document: Document, at: KeyPath) -> bool:
    """Replace a text made from variables by the plain scalar it spells; False where there is nothing to do."""
    if not path or (*at, *path) not in document.expansions:
        return False
    parent = value_at(section, path[:-1])
    text = parent[path[-1]]
    value = resolve(text) if isinstance(text, str) else text
    if isinstance(text, str) and not isinstance(value, str):
        parent[path[-1]] = value
        return True
    return False


def _unknown_rules(document: Document, known_rules: Collection[str] | None) -> list[Finding]:
    if known_rules is None:
        return []
    sections: list[KeyPath] = [("restructure",)]
    targets = document.data.get("targets")
    sections += [("targets", name, "restructure") for name in targets] if isinstance(targets, dict) else []
    findings: list[Finding] = []
    for path in sections:
        rules = document.data
        for part in path:
            rules = rules.get(part) if isinstance(rules, dict) else None
        for index, rule in enumerate(rules if isinstance(rules, list) else []):
            if isinstance(rule, str) and rule not in known_rules and len(findings) < _MOST_RULES:
                remedy = suggestion(rule, sorted(known_rules), "rules", listed="`nnkit rules`")
                meant = nearest(rule, known_rules) or ""
                reason = f"there is no rewrite rule '{rule}'"
                findings.append(Finding((*path, index), False, reason, remedy, rule, meant))
    return findings


def problems_of(document: Document, findings: list[Finding]) -> list[Problem]:
    placed = [(document.place(finding.path, key=finding.at_key), finding) for finding in findings]
    return in_order(
        ((place, Problem(str(place), f.reason, f.remedy, f.written, f.answer)) for place, f in placed), document.file
    )

"""`load_deployment`: from a file to a valid `DeploymentRecipe`, or to one error that names all that is wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from nnkit.recipe.deployment import DEPLOYMENT, NOT_IN_A_DEPLOYMENT, DeploymentBody, DeploymentRecipe
from nnkit.recipe.document import Document, load_document
from nnkit.recipe.explain import Finding
from nnkit.recipe.loading import TargetModels, assembled, problems_of, read_section, read_targets
from nnkit.recipe.problems import InvalidRecipeError
from nnkit.recipe.settings import Setting

_KEYS_OF_A_NETWORK = ("restructure", "tags", "calibration")


def is_deployment(path: str | os.PathLike[str], settings: Sequence[Setting] = ()) -> bool:
    """Whether a recipe deploys several networks. Raises InvalidRecipeError as `load_document`."""
    data = load_document(path, settings=settings).data
    return isinstance(data, dict) and DEPLOYMENT in data


def load_deployment(
    path: str | os.PathLike[str], *, target_models: TargetModels, settings: Sequence[Setting] = ()
) -> DeploymentRecipe:
    """Read and validate the recipe of a deployment; those of its networks are not opened.

    Arguments and errors as of `load_recipe`.
    """
    document = load_document(path, settings=settings)
    findings = list(_misplaced(document))
    without = ("targets", *NOT_IN_A_DEPLOYMENT)
    body = read_section(DeploymentBody, document, (), findings, explain_with=DeploymentRecipe, without=without)
    targets = read_targets(document, target_models, findings)
    findings += _target_findings(document)
    if findings or body is None:
        raise InvalidRecipeError(problems_of(document, findings), file=document.file)
    return assembled(DeploymentRecipe, document, body, targets)


def _misplaced(document: Document) -> Iterator[Finding]:
    """Keys that belong to one network."""
    for key in NOT_IN_A_DEPLOYMENT:
        if key in document.data:
            reason = f"'{key}' belongs to one network"
            yield Finding((key,), True, reason, "write it in that network's own recipe")


def _target_findings(document: Document) -> Iterator[Finding]:
    section = document.data.get("targets")
    if not isinstance(section, dict):
        return
    for name in list(section)[1:]:
        yield Finding(("targets", name), True, "a deployment is for one target", "write a recipe for each target")
    for name, options in section.items():
        for key in _KEYS_OF_A_NETWORK:
            if isinstance(options, dict) and key in options:
                reason = f"'{key}' belongs to one network"
                yield Finding(("targets", name, key), True, reason, "write it in that network's own recipe")

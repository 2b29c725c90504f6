"""The networks' own recipes, with what the deployment says for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from nnkit.errors import DoesNotFitError, RecipeError
from nnkit.recipe import Recipe, load_recipe
from nnkit.recipe.deployment import DeploymentRecipe
from nnkit.recipe.sections import TargetOptionsBase
from nnkit.rewrite import known_names
from nnkit.target import Deployer, option_models, plugin_name
from nnkit.visible import joined


def network_recipes(recipe: DeploymentRecipe, deployer: Deployer) -> dict[str, tuple[Recipe, str]]:
    """Each network's recipe with its one target, and that target's key, by the network's name in the deployment.

    Raises InvalidRecipeError of a network's recipe, RecipeError where it is not for the deployment's target.
    """
    whole = deployer.refusal(recipe.targets[recipe.key])
    if whole is not None:
        raise RecipeError(whole, where=recipe.where("targets", recipe.key), remedy="remove that line")
    shared = {name: getattr(recipe.targets[recipe.key], name) for name in deployer.shared}
    recipes = {}
    for name, network in recipe.deployment.networks.items():
        at = ("deployment", "networks", name)
        path = network.recipe.existing_file(f"the recipe of '{name}'")
        own = load_recipe(path, target_models=option_models(), known_rules=known_names())
        key = _key(recipe, own, network.target, at)
        refused = deployer.refusal(own.targets[key])
        if refused is not None:
            raise RecipeError(refused, where=own.where("targets", key), remedy="remove that line, or build it alone")
        recipes[name] = (with_options(own, name, key, own.targets[key].model_copy(update=shared)), key)
    return recipes


def with_options(recipe: Recipe, name: str, key: str, options: TargetOptionsBase) -> Recipe:
    """A network's recipe under another name, for one target with these options."""
    return recipe.model_copy(update={"name": name, "targets": {key: options}, "sweep": {}})


def _key(recipe: DeploymentRecipe, own: Recipe, wanted: str | None, at: tuple[str, ...]) -> str:
    fitting = [key for key in own.targets if plugin_name(key) == recipe.key]
    if wanted is not None:
        if wanted in fitting:
            return wanted
        remedy = f"write one of {', '.join(fitting)}" if fitting else f"add {recipe.key} to its targets"
        reason = (
            f"its recipe has no target '{wanted}'" if wanted not in own.targets else f"'{wanted}' is another target"
        )
        raise RecipeError(reason, where=recipe.where(*at, "target"), remedy=remedy)
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise RecipeError(
            f"its recipe has {len(fitting)} targets for {recipe.key}",
            where=recipe.where(*at),
            remedy=f"add target: one of {', '.join(fitting)}",
        )
    raise RecipeError(
        f"its recipe has no target {recipe.key}, only {', '.join(own.targets)}",
        where=recipe.where(*at),
        remedy=f"add {recipe.key} to the targets of {own.file}",
    )


def check_names(recipe: DeploymentRecipe) -> None:
    """Raise RecipeError for a network that has the name of the whole: both name files in C."""
    from nnkit.c.text import identifier

    stem = identifier(recipe.name)
    for name in recipe.deployment.networks:
        if identifier(name) == stem:
            raise RecipeError(
                f"'{name}' is the deployment's name too",
                where=recipe.where("deployment", "networks", name),
                remedy="give one of them another name",
            )


@contextmanager
def within_what_is_left(name: str) -> Iterator[None]:
    """A network that does not fit is named, and its remedy says that sizes are of what is left to it."""
    try:
        yield
    except DoesNotFitError as error:
        raise DoesNotFitError(
            joined(f"in the network '{name}': ", error.reason),
            where=error.where,
            remedy=joined(
                error.remedy,
                "; sizes are of what is left to one network: what lives between them comes on top in the "
                "deployment's `memory`",
            ),
        ) from error


Networks = Mapping[str, tuple[Recipe, str]]

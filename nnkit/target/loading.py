"""How installed targets are found, loaded and checked. Built-in and third-party targets register the same way.

An entry point of the group `nnkit.targets` names a class that derives from `nnkit.target.Target`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

from nnkit.did_you_mean import close_to, did_you_mean, suggestion
from nnkit.errors import RecipeError, ToolError, UsageError
from nnkit.installation import target_plugins
from nnkit.target.protocol import API_VERSION, Target

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from nnkit.recipe import Recipe, TargetOptionsBase

AnyTarget: TypeAlias = Target[Any, Any]
"""An installed target: what it lowers to and its options are its own types."""

VARIANT = "@"
"""In a recipe `npu@small` is a second build for the target `npu`, with options of its own."""

_REQUIRED = ("api_version", "name", "summary", "options")
_SIMILAR = 0.75  # from here on a name that is none of the protocol's counts as one that was misspelt


def installed_targets() -> dict[str, Callable[[], AnyTarget]]:
    """Loaders of the installed targets by name; nothing is imported until one is called."""
    return {entry.name: _loader(entry) for entry in sorted(target_plugins(), key=lambda e: e.name)}


def plugin_name(key: str) -> str:
    """The target's name in a recipe's key: `npu` of `npu@small`."""
    return key.partition(VARIANT)[0]


def load_target(name: str) -> AnyTarget:
    """The target of that name. Raises UsageError (unknown) or ToolError (a plugin that does not load)."""
    loaders = installed_targets()
    if name not in loaders:
        near = did_you_mean(name, loaders)
        hint = f" ({near})" if near else ""
        raise UsageError(
            f"no target {name!r} is installed{hint}", remedy=f"installed targets: {', '.join(loaders) or 'none'}"
        )
    return loaders[name]()


def working_targets() -> tuple[dict[str, AnyTarget], dict[str, str]]:
    """The installed targets that load, by name; and of those that do not, the reason."""
    targets: dict[str, AnyTarget] = {}
    broken: dict[str, str] = {}
    for name, load in installed_targets().items():
        try:
            targets[name] = load()
        except ToolError as error:
            broken[name] = error.reason
    return targets, broken


def example_options(target: AnyTarget) -> TargetOptionsBase:
    """The target's options by default; one that has none (a chip) by its example."""
    fields = target.options.model_fields.items()
    options: TargetOptionsBase = target.options(
        **{name: (field.examples or [None])[0] for name, field in fields if field.is_required()}
    )
    return options


class OptionModels(Mapping[str, "type[TargetOptionsBase]"]):
    """The options model of every installed target; a plugin is imported when its model is asked for.

    A plugin that does not load thereby breaks only what names it. A variant (`npu@small`) has its target's model.
    """

    def __init__(self) -> None:
        self._loaders = installed_targets()

    def __getitem__(self, name: str) -> type[TargetOptionsBase]:
        return self._loaders[plugin_name(name)]().options

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaders)

    def __len__(self) -> int:
        return len(self._loaders)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and plugin_name(name) in self._loaders


def option_models() -> OptionModels:
    """The options models of the installed targets, for the recipe loader and `nnkit schema`."""
    return OptionModels()


def _loader(entry: EntryPoint) -> Callable[[], AnyTarget]:
    def load() -> AnyTarget:
        try:
            loaded: object = entry.load()
        except Exception as error:
            raise ToolError(
                f"the target plugin {entry.name!r} ({entry.value}) does not load: {error}",
                remedy="reinstall or remove the package that provides it",
            ) from error
        return _checked(entry, loaded)()

    return load


def _checked(entry: EntryPoint, loaded: object) -> type[AnyTarget]:
    """The plugin's class. Raises ToolError where it is none, or not one that this nnkit can use."""
    plugin = f"the target plugin {entry.name!r} ({entry.value})"
    if not (isinstance(loaded, type) and issubclass(loaded, Target)):
        raise ToolError(
            f"{plugin} is no class that derives from nnkit.target.Target",
            remedy=f"install a version of the plugin for API version {API_VERSION} (docs/writing_a_target.md)",
        )
    names = set(dir(loaded))
    if "api_version" in names and loaded.api_version != API_VERSION:
        raise ToolError(
            f"{plugin} has API version {loaded.api_version}, this nnkit has {API_VERSION}",
            remedy="install versions of the plugin and of nnkit that belong together",
        )
    lacking = [name for name in _REQUIRED if name not in names] + sorted(loaded.__abstractmethods__)
    if lacking:
        raise ToolError(
            f"{plugin} lacks {', '.join(lacking)}", remedy="docs/writing_a_target.md says what a target has"
        )
    misspelt = _misspelt(loaded)
    if misspelt:
        pairs = ", ".join(f"{name!r} (did you mean {near!r}?)" for name, near in misspelt.items())
        raise ToolError(
            f"{plugin} has what no target is asked for: {pairs}",
            remedy="correct the names, or begin those of the plugin's own with an underscore",
        )
    return loaded


def _misspelt(plugin: type[AnyTarget]) -> dict[str, str]:
    """Public attributes of a plugin's class that resemble one of the base class, which has the right name."""
    asked = {*(name for name in dir(Target) if not name.startswith("_")), *_REQUIRED}
    own = {name for name in dir(plugin) if not name.startswith("_")} - asked
    near = {name: close_to(name, sorted(asked), count=1, cutoff=_SIMILAR) for name in sorted(own)}
    return {name: matches[0] for name, matches in near.items() if matches}


def check_target_rules(key: str, named: Iterable[str], known: Sequence[str]) -> None:
    """The rewrite rules that a target itself names are there. Raises ToolError: the recipe cannot mend it."""
    for name in named:
        if name not in known:
            raise ToolError(
                f"the target {plugin_name(key)!r} asks for a rewrite rule {name!r}, which is not there",
                where=key,
                remedy=f"{did_you_mean(name, known)} It is a mistake of the target's plugin: its "
                "default_rules or its legalisation".lstrip(),
            )


def check_required(recipe: Recipe) -> None:
    """Every runner that `verify.require` names is one of a target in the recipe. Raises RecipeError."""
    required = recipe.verify.require
    if not required:
        return
    offered = [
        runner.name
        for key, options in recipe.targets.items()
        for runner in load_target(plugin_name(key)).runners(options)
    ]
    known = tuple(dict.fromkeys(offered))
    for index, name in enumerate(required):
        if name not in known:
            raise RecipeError(
                f"no target of this recipe has a runner {name!r}",
                where=recipe.where("verify", "require", index),
                remedy=suggestion(name, known, "their runners are"),
            )


def check_corrections(recipe: Recipe, key: str, target: AnyTarget) -> None:
    """What a recipe asks for and a target does not offer is an error, not silence. Raises RecipeError.

    key: of the build in the recipe's `targets`.
    """
    asked = recipe.calibration_for(key).corrections or ()
    offered = target.corrections_with(recipe.targets[key])
    lacking = [name for name in asked if name not in offered]
    if lacking:
        offer = f"it offers: {', '.join(offered)}" if offered else "it offers none"
        choice = _choice_that_offers(target, recipe.targets[key], lacking)
        if choice:
            offer += f"; with `{choice}` also {', '.join(lacking)}"
        raise RecipeError(
            f"target {target.name!r} does not offer the correction {', '.join(lacking)}"
            f"{' with these options' if choice else ''}",
            where=recipe.where_override(key, "calibration", "corrections"),
            remedy=f"{offer}; remove it, or give this target a `calibration` of its own",
        )
    if recipe.calibration_for(key).judged_on is not None and not target.judges_by_task:
        raise RecipeError(
            f"target {target.name!r} judges corrections by its outputs alone, not by the task",
            where=recipe.where_override(key, "calibration", "judged_on"),
            remedy="remove this line, or give this target a `calibration` of its own",
        )


def _choice_that_offers(target: AnyTarget, options: TargetOptionsBase, corrections: Sequence[str]) -> str:
    """An option, as a recipe writes it, with which the target offers these corrections; empty where none does."""
    for name, field in target.options.model_fields.items():
        for choice in get_args(field.annotation):
            if isinstance(choice, str):
                offered = target.corrections_with(options.model_copy(update={name: choice}))
                if set(corrections) <= set(offered):
                    return f"{name}: {choice}"
    return ""

"""Targets as a command line names them: `npu`, `npu@small`, `npu:chip`, or the chip alone, `chip`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from nnkit.did_you_mean import did_you_mean, suggestion
from nnkit.errors import UsageError
from nnkit.target.loading import VARIANT, AnyTarget, installed_targets, load_target, plugin_name, working_targets

if TYPE_CHECKING:
    from nnkit.recipe import TargetOptionsBase

CHIP = ":"
"""Between a target and its chip."""


@dataclass(frozen=True)
class NamedTarget:
    """key: as in a recipe's `targets`. chip: as it was named, empty where it was not. settings: the options that the
    name stands for."""

    key: str
    target: AnyTarget
    chip: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def own_key(self) -> str:
        """The key of a build for the chip alone, beside others of the target."""
        return f"{self.key}{VARIANT}{self.chip}"

    def is_of(self, options: TargetOptionsBase) -> bool:
        """Whether a build with these options is for the chip."""
        return all(getattr(options, name) == value for name, value in self.settings.items())


def named_target(text: str, where: str = "--target") -> NamedTarget:
    """The target that a text names. Raises UsageError for one that there is not, and for an unknown chip of it."""
    key, colon, chip = text.partition(CHIP)
    name, chip = plugin_name(key), chip.lower()
    if name not in installed_targets() and not colon:
        for owner, target in working_targets()[0].items():
            if key.lower() in target.chips():
                return NamedTarget(owner, target, key.lower(), target.chips()[key.lower()])
        raise _unknown(text, where)
    target = load_target(name)
    chips = target.chips()
    if colon and chip not in chips:
        raise UsageError(
            f"{name} has no chip {chip!r}",
            where=where,
            remedy=suggestion(chip, tuple(chips), "its chips are") if chips else f"write --target {key}",
        )
    return NamedTarget(key, target, chip, chips[chip]) if colon else NamedTarget(key, target)


def with_what_is_required(named: NamedTarget, where: str = "--target") -> NamedTarget:
    """The target with a value for every option that has no default; a chip has to be named.

    Raises UsageError where there are chips and none was named.
    """
    fields = named.target.options.model_fields
    lacking = [name for name, field in fields.items() if field.is_required() and name not in named.settings]
    chips = named.target.chips()
    if lacking and any(name in settings for settings in chips.values() for name in lacking):
        raise UsageError(
            f"{named.target.name} needs a chip: {', '.join(chips)}",
            where=where,
            remedy=f"name it: --target {named.key}{CHIP}{next(iter(chips))}",
        )
    examples = {name: (fields[name].examples or [None])[0] for name in lacking}
    return replace(named, settings={**named.settings, **examples})


def _unknown(text: str, where: str) -> UsageError:
    targets = working_targets()[0]
    chips = [chip for target in targets.values() for chip in target.chips()]
    near = did_you_mean(text, [*targets, *chips])
    return UsageError(
        f"no target {text!r} is installed{f' ({near})' if near else ''}",
        where=where,
        remedy=f"installed targets: {', '.join(targets) or 'none'}; chips: {', '.join(chips) or 'none'}",
    )

"""The table of rules, the default order, and the lookup by the names in a recipe."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from nnkit.errors import RecipeError
from nnkit.rewrite.rule import AnyRule

DEFAULT_RULES: tuple[str, ...] = (
    # clean up and write things in one form
    "remove_identity",
    "simplify_clip",
    "merge_clips",
    "collapse_reshape",
    "flatten_concat",
    "sum_to_add",
    "order_mul",
    "normalize_resize",
    "global_pool",
    "merge_pad",
    "slice_to_pool",
    "merge_subsampling",
    "pad_channels_to_conv",
    # fold constants into layers
    "fold_input_normalization",
    "fold_batch_norm",
    "fold_scale",
    "add_constant_to_bias",
    # bring layers into the form that targets have kernels for
    "fc_to_conv",
    "sink_reshape",
    "batch_norm_to_conv",
    # fuse
    "commute_max_pool",
    "pool_before_concat",
    "fuse_activation",
    "fuse_pool",
)
"""Every rule, in the order (= priority) of a recipe that names none."""


def available_rules() -> Mapping[str, AnyRule]:
    """All rules by name."""
    from nnkit.rewrite.rules import (
        add_constant_to_bias,
        batch_norm_to_conv,
        collapse_reshape,
        commute_max_pool,
        fc_to_conv,
        flatten_concat,
        fold_batch_norm,
        fold_input_normalization,
        fold_scale,
        fuse_activation,
        fuse_pool,
        global_pool,
        merge_clips,
        merge_pad,
        merge_subsampling,
        normalize_resize,
        order_mul,
        pad_channels_to_conv,
        pool_before_concat,
        remove_identity,
        simplify_clip,
        sink_reshape,
        slice_to_pool,
        sum_to_add,
    )

    rules: tuple[AnyRule, ...] = (
        remove_identity.RULE,
        simplify_clip.RULE,
        merge_clips.RULE,
        collapse_reshape.RULE,
        flatten_concat.RULE,
        sum_to_add.RULE,
        order_mul.RULE,
        normalize_resize.RULE,
        global_pool.RULE,
        merge_pad.RULE,
        slice_to_pool.RULE,
        merge_subsampling.RULE,
        pad_channels_to_conv.RULE,
        fold_input_normalization.RULE,
        fold_batch_norm.RULE,
        fold_scale.RULE,
        add_constant_to_bias.RULE,
        fc_to_conv.RULE,
        sink_reshape.RULE,
        batch_norm_to_conv.RULE,
        commute_max_pool.RULE,
        pool_before_concat.RULE,
        fuse_activation.RULE,
        fuse_pool.RULE,
    )
    return MappingProxyType({rule.name: rule for rule in rules})


def resolve_rules(names: Sequence[str], *, where: str = "") -> tuple[AnyRule, ...]:
    """The rules that a recipe names, in its order.

    Args:
        names: names of rules; a name may not appear twice.
        where: the place in the recipe, for the message.

    Raises:
        RecipeError: a name is unknown (the nearest one is suggested) or repeated.
    """
    rules = available_rules()
    for position, name in enumerate(names):
        if name not in rules:
            near = difflib.get_close_matches(name, rules, n=1, cutoff=0.4)
            known = ", ".join(rules)
            remedy = f"did you mean '{near[0]}'? Known rewrites: {known}" if near else f"known rewrites: {known}"
            raise RecipeError(f"there is no rewrite '{name}'", where=where, remedy=remedy)
        if name in names[:position]:
            raise RecipeError(
                f"rewrite '{name}' is named twice", where=where, remedy="name it once; rewrites run until none fires"
            )
    return tuple(rules[name] for name in names)

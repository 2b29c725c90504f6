"""The rules and edits by name, the default order, and the lookup by the names in a recipe.

The rule `name` is the RULE of `rules/<name>.py`; the edit `name` is what `make` in `edits/<name>.py` gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from nnkit.did_you_mean import suggestion
from nnkit.errors import RecipeError
from nnkit.rewrite.edit import Edit
from nnkit.rewrite.rule import AnyRule

if TYPE_CHECKING:
    from nnkit.recipe.restructure import RestructureEntry

DEFAULT_RULES: tuple[str, ...] = (
    # clean up and write things in one form
    "remove_identity",
    "drop_nan_guard",
    "drop_softplus_guard",
    "einsum_to_matmul",
    "selu_to_elu",
    "choice_to_leaky_relu",
    "tile_to_concat",
    "merge_transposes",
    "sink_transpose",
    "simplify_clip",
    "merge_clips",
    "collapse_reshape",
    "flatten_concat",
    "sum_to_add",
    "one_dimension_to_two",
    "three_dimensions_to_two",
    "order_mul",
    "normalize_resize",
    "global_pool",
    "merge_pad",
    "drop_padding_taps",
    "focus_to_conv",
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
"""The rules of a recipe that names none, in their order (= priority)."""

_INTO_INTEGER_LAYERS: tuple[str, ...] = (
    "unroll_recurrent",
    "finite_mask",
    "softmax_of_rows",
    "instance_norm_to_rows",
    "lrn_to_layers",
    "comparison_to_sign",
    "arithmetic_to_add_and_mul",
    "resize_to_layers",
    "pad_to_slices",
    "depth_to_space_to_transpose",
    "merge_matmul",
    "rows_to_conv",
    "reduce_to_layers",
    "repeat_by_conv",
    "broadcast_factor",
    "broadcast_to_conv",
    "constant_part_to_conv",
    "gather_to_conv",
    "split_to_slices",
    "slice_inside",
    "pad_channels_last",
    "pad_inside",
    "concat_along_channels",
    "split_transpose",
    "constants_to_conv",
)
"""Rules that put layers without integers of their own into such as have them, in their order."""

OPTIONAL_RULES: tuple[str, ...] = (
    "clip_to_relus",
    "warp_from_grid",
    "warp_before_affine",
    "nonfinal_fc_to_conv",
    "norm_from_concat",
    "merge_fc_pca",
    "hard_swish_to_product",
    "hard_sigmoid_to_clip",
    "broadcast_to_concat",
    "shuffle_to_conv",
    "unshuffle_to_conv",
    "floor_pool_to_conv",
    "inner_fc_to_conv",
    "sink_equal_reshapes",
    "gelu_from_parts",
    "filtered_resize_to_shuffle",
    "filtered_resize_to_conv",
    "uneven_resize_to_conv",
    "matrices_to_conv",
    "mask_above_zero",
    "unroll_uncommon_recurrent",
    "relu_before_copies",
    *_INTO_INTEGER_LAYERS,
)
"""Rules that a recipe or a target must name; in the order in which they are usually written."""

INTEGER_FORM: tuple[str, ...] = (
    "drop_nan_guard",
    "drop_softplus_guard",
    "fc_to_conv",
    "normalize_resize",
    *_INTO_INTEGER_LAYERS,
    "fuse_activation",
    "fuse_pool",
)
"""The rules that bring a network into the layers that the integer quantisers know, in their order."""

RULES: tuple[str, ...] = (*DEFAULT_RULES, *OPTIONAL_RULES)
"""Every rule that keeps the network's numbers."""

EDITS: tuple[str, ...] = (
    "replace_input",
    "merge_components",
    "split_stn",
    "strip_var",
    "keep_output",
    "drop_output",
    "replace_tail",
    "mean_normalize",
    "add_pca",
    "half_face_pca",
    "split_full_face_pca",
    "four_dimensional_outputs",
)
"""Every edit, in the order in which they are usually written."""


def available_rules() -> Mapping[str, AnyRule]:
    """All rules by name, those with options as they are without them."""
    return MappingProxyType({name: _rule(name) for name in RULES})


def _rule(name: str) -> AnyRule:
    rule: AnyRule = import_module(f"nnkit.rewrite.rules.{name}").RULE
    return rule


def known_names() -> tuple[str, ...]:
    """What a recipe may name under `restructure`: all rules and edits, and the target's default set."""
    from nnkit.recipe.restructure import DEFAULT_SET

    return (DEFAULT_SET, *RULES, *EDITS)


def edit_with(name: str, options: Any, where: str = "") -> Edit:
    """The edit `name` with its options, a model of `nnkit.recipe.restructure`. Its file has the edit's name."""
    edit: Edit = import_module(f"nnkit.rewrite.edits.{name}").make(options, where)
    return edit


def resolve_rules(names: Sequence[str], *, where: str = "") -> tuple[AnyRule, ...]:
    """The rules that a recipe names, in its order.

    Args:
        names: names of rules; a name may not appear twice.
        where: the place in the recipe, for the message.

    Raises:
        RecipeError: a name is unknown (the nearest one is suggested) or repeated.
    """
    for position, name in enumerate(names):
        _check_known(name, RULES, where)
        if name in names[:position]:
            raise _twice(name, where)
    return tuple(_rule(name) for name in names)


def resolve_steps(
    entries: Sequence[RestructureEntry], *, where: Callable[[int], str] = lambda index: ""
) -> tuple[AnyRule | Edit, ...]:
    """The rules and edits that a recipe names, in its order, with their options.

    Args:
        entries: names, or names with options; equal entries may not appear twice.
        where: the place of an entry in the recipe, for messages.

    Raises:
        RecipeError: a name is unknown (the nearest one is suggested), repeated, or stands without options that it
            needs.
    """
    from nnkit.recipe.restructure import OPTION_MODELS, entry_name, required_options

    steps: list[AnyRule | Edit] = []
    for position, entry in enumerate(entries):
        name, place = entry_name(entry), where(position)
        _check_known(name, (*RULES, *EDITS), place)
        if entry in entries[:position]:
            raise _twice(name, place)
        if isinstance(entry, str) and (missing := required_options(name)):
            remedy = f"write `{name}: {{{', '.join(f'{key}: ...' for key in missing)}}}`"
            raise RecipeError(f"'{name}' cannot be without {' and '.join(missing)}", where=place, remedy=remedy)
        if name in EDITS:
            steps.append(edit_with(name, OPTION_MODELS[name]() if isinstance(entry, str) else entry.options, place))
        elif isinstance(entry, str):
            steps.append(_rule(name))
        else:
            steps.append(_with_options(name, entry.options))
    return tuple(steps)


def _with_options(name: str, options: Any) -> AnyRule:
    rule: AnyRule = import_module(f"nnkit.rewrite.rules.{name}").make(
        **{key: getattr(options, key) for key in type(options).model_fields}
    )
    return rule


def entry_key(entry: RestructureEntry) -> Any:
    """An entry as JSON values that change whenever it, or a file that it names, does: for the stage cache."""
    return entry if isinstance(entry, str) else {entry.name: _key(entry.options)}


def _key(value: Any) -> Any:
    from pydantic import BaseModel

    from nnkit.file_digest import file_digest
    from nnkit.importers.onnx_importer import onnx_digest
    from nnkit.recipe.types import RecipePath

    if isinstance(value, RecipePath):
        file = value.existing_file()
        digest = onnx_digest if file.suffix.lower() == ".onnx" else file_digest  # a model has data files too
        return {"path": value.written, "sha256": digest(file)}
    if isinstance(value, BaseModel):
        return {name: _key(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, tuple | list):
        return [_key(item) for item in value]
    return value


def _check_known(name: str, known: Sequence[str], where: str) -> None:
    if name in known:
        return
    raise RecipeError(
        f"there is no rewrite '{name}'", where=where, remedy=suggestion(name, known, "rules", listed="`nnkit rules`")
    )


def _twice(name: str, where: str) -> RecipeError:
    return RecipeError(
        f"rewrite '{name}' is named twice", where=where, remedy="name it once; rewrites run until none fires"
    )

"""What the edits that append a projection share: the feature they read and the layer that they write."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import RecipeError, UserFileError
from nnkit.graph import ValueTags
from nnkit.recipe.types import RecipePath
from nnkit.rewrite.pca import Pca, read_pca
from nnkit.rewrite.surgery import Surgery


def pca_of(file: RecipePath) -> Pca:
    """The projection in the file that a recipe names.

    Raises:
        RecipeError: there is no such file, or it is no projection; the place is the recipe's line.
    """
    path = file.existing_file("the PCA file")
    try:
        return read_pca(path)
    except UserFileError as error:
        raise RecipeError(f"'{file.text}': {error.reason}", where=file.where, remedy=error.remedy) from error


def feature_length(surgery: Surgery, value: str) -> int:
    """Elements of the feature `value`, which is [1, D] or [1, D, 1, 1].

    Raises:
        RecipeError: it is a feature map.
    """
    shape = surgery.shape(value)
    if math.prod(shape) != math.prod(shape[1:2]):
        raise surgery.refused(
            f"'{value}' has shape {list(shape)}; a projection takes a feature, [1, D] or [1, D, 1, 1]",
            "name the output that holds the feature",
        )
    return math.prod(shape)


def append_affine(
    surgery: Surgery,
    value: str,
    weight: NDArray[np.float64],
    bias: NDArray[np.float64],
    name: str,
    *,
    rank: int,
    tags: ValueTags,
) -> str:
    """W x + b behind the feature `value`; returns the new value.

    A 1x1 convolution where x is [1, D, 1, 1], else a fully connected layer.

    Args:
        weight: [K, D]. bias: [K].
        rank: of the feature: 2 for [1, D], 4 for [1, D, 1, 1].
    """
    kernel = (1, 1) if rank == 4 else ()
    constants = [
        surgery.add_constant(f"{name}.weight", weight.astype(np.float32).reshape(*weight.shape, *kernel)),
        surgery.add_constant(f"{name}.bias", bias.astype(np.float32)),
    ]
    if kernel:
        result = surgery.append("Conv", [value, *constants], name, kernel_shape=[1, 1])
    else:
        result = surgery.append("Gemm", [value, *constants], name, transB=1)
    surgery.tag(result, tags)
    return result


def as_one_pixel(surgery: Surgery, value: str, name: str) -> str:
    """The feature `value`, [1, D] or [1, D, 1, 1], as [1, D, 1, 1]."""
    shape = surgery.shape(value)
    if len(shape) == 4:
        return value
    target = surgery.add_constant(f"{name}_input.shape", np.array([1, *shape[1:], 1, 1], np.int64))
    return surgery.append("Reshape", [value, target], f"{name}_input")


def replaced(outputs: Sequence[str], old: str, new: Sequence[str]) -> list[str]:
    """The outputs with `new` in the place of `old`."""
    return [name for output in outputs for name in (new if output == old else [output])]

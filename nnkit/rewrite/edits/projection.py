"""What the edits that append a projection share: the feature they read and the layer that they write."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import RecipeError, UserFileError
from nnkit.graph import ValueTags
from nnkit.recipe.types import RecipePath
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.pca import Pca, read_pca

if TYPE_CHECKING:
    import onnx_ir as ir


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


def feature_length(editor: Editor, value: ir.Value) -> int:
    """Elements of the feature `value`, which is [1, D] or [1, D, 1, 1].

    Raises:
        RecipeError: it is a feature map.
    """
    shape = editor.shape(value)
    if math.prod(shape) != math.prod(shape[1:2]):
        raise editor.refused(
            f"'{value.name}' has shape {list(shape)}; a projection takes a feature, [1, D] or [1, D, 1, 1]",
            "name the output that holds the feature",
        )
    return math.prod(shape)


def append_affine(
    editor: Editor,
    value: ir.Value,
    weight: NDArray[np.float64],
    bias: NDArray[np.float64],
    name: str,
    *,
    rank: int,
    tags: ValueTags,
) -> ir.Value:
    """W x + b behind the feature `value`; returns the new value.

    A 1x1 convolution where x is [1, D, 1, 1], else a fully connected layer.

    Args:
        weight: [K, D]. bias: [K].
        rank: of the feature: 2 for [1, D], 4 for [1, D, 1, 1].
    """
    kernel = (1, 1) if rank == 4 else ()
    constants = [
        editor.constant(f"{name}.weight", weight.astype(np.float32).reshape(*weight.shape, *kernel)),
        editor.constant(f"{name}.bias", bias.astype(np.float32)),
    ]
    if kernel:
        result = editor.append("Conv", [value, *constants], {"kernel_shape": [1, 1]}, name=name)
    else:
        result = editor.append("Gemm", [value, *constants], {"transB": 1}, name=name)
    editor.tag(result, tags)
    return result


def as_one_pixel(editor: Editor, value: ir.Value, name: str) -> ir.Value:
    """The feature `value`, [1, D] or [1, D, 1, 1], as [1, D, 1, 1]."""
    shape = editor.shape(value)
    if len(shape) == 4:
        return value
    target = editor.constant(f"{name}_input.shape", np.array([1, *shape[1:], 1, 1], np.int64))
    return editor.append("Reshape", [value, target], {}, name=f"{name}_input")


def replace_output(editor: Editor, old: ir.Value, new: Sequence[ir.Value]) -> None:
    """The network gives `new` in the place of its output `old`."""
    editor.set_outputs([value for output in editor.graph.outputs for value in (new if output is old else [output])])

"""Append a principal component projection (PCA) to a feature.

Change: the output x [1, D] or [1, D, 1, 1] becomes y = (x - mean) matrix, a layer W x + b with W = matrix^T and
b = -mean matrix: fully connected behind [1, D], a 1x1 convolution behind [1, D, 1, 1].
Options: `file`, an .npz with mean [D] and matrix [D, K]; `output`, the feature; `name` of the layer and the new
output; `hp` runs the layer in 16 bits, which is the usual choice for it.
Refused where the feature has another length than the file's D, or is a feature map.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from nnkit.graph import Model, ValueTags
from nnkit.recipe.restructure import AddPca
from nnkit.rewrite.edit import Edit, Edited, Expected, Values, affine_expected, copied, same_feeds
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.edits.projection import append_affine, feature_length, pca_of, replace_output
from nnkit.rewrite.naming import named_output
from nnkit.rewrite.pca import Pca

if TYPE_CHECKING:
    import onnx_ir as ir


def make(options: AddPca, where: str = "") -> Edit:
    """The edit with its options."""
    return Edit("add_pca", __doc__ or "", lambda model: _apply(model, options, where))


def _apply(model: Model, options: AddPca, where: str) -> Edited:
    editor = Editor(model, where)
    feature = named_output(editor, options.output)
    pca = pca_of(options.file)
    length = feature_length(editor, feature)
    if pca.features != length:
        raise editor.refused(
            f"'{options.file.text}' projects features of {pca.features} values, '{feature.name}' has {length}",
            "give the PCA that was trained on this feature",
        )
    return append_pca(editor, feature, pca, options)


def append_pca(editor: Editor, feature: ir.Value, pca: Pca, options: AddPca) -> Edited:
    """The projection of `feature`, in its place among the outputs."""
    before, former = editor.output_names, str(feature.name)
    tags = ValueTags(hp=options.hp, origins=(options.name,))
    rank = len(editor.shape(feature))
    appended = append_affine(editor, feature, pca.weight, pca.bias, options.name, rank=rank, tags=tags)
    result = str(appended.name)
    replace_output(editor, feature, [appended])

    def expected(values: Values) -> Mapping[str, Expected]:
        others = {name: copied(values[name]) for name in before if name != former}
        return {**others, result: affine_expected(values[former], pca.weight, pca.bias)}

    return Edited(
        editor.finish_edit(),
        (result,),
        f"output '{former}' of {pca.features} values became '{result}' of {pca.components}: (x - mean) matrix",
        tuple(before),
        expected,
        same_feeds,
    )

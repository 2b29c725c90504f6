"""Append a principal component projection (PCA) to a feature.

Change: the output x [1, D] or [1, D, 1, 1] becomes y = (x - mean) matrix, a layer W x + b with W = matrix^T and
b = -mean matrix: fully connected behind [1, D], a 1x1 convolution behind [1, D, 1, 1].
Options: `file`, an .npz with mean [D] and matrix [D, K]; `output`, the feature; `name` of the layer and the new
output; `hp` runs the layer in 16 bits, which is the usual choice for it.
Refused where the feature has another length than the file's D, or is a feature map.
"""

from __future__ import annotations

from collections.abc import Mapping

from nnkit.graph import Model, ValueTags
from nnkit.recipe.restructure import AddPca
from nnkit.rewrite.edit import Edit, Edited, Expected, Values, affine_expected, copied, same_feeds
from nnkit.rewrite.edits.projection import append_affine, feature_length, pca_of, replaced
from nnkit.rewrite.pca import Pca
from nnkit.rewrite.surgery import Surgery


def make(options: AddPca, where: str = "") -> Edit:
    """The edit with its options."""
    return Edit("add_pca", __doc__ or "", lambda model: _apply(model, options, where))


def _apply(model: Model, options: AddPca, where: str) -> Edited:
    surgery = Surgery(model, where)
    feature = surgery.one_output(options.output)
    pca = pca_of(options.file)
    length = feature_length(surgery, feature)
    if pca.features != length:
        raise surgery.refused(
            f"'{options.file.text}' projects features of {pca.features} values, '{feature}' has {length}",
            "give the PCA that was trained on this feature",
        )
    return append_pca(model, surgery, feature, pca, options)


def append_pca(model: Model, surgery: Surgery, feature: str, pca: Pca, options: AddPca) -> Edited:
    """The projection of `feature`, in its place among the outputs."""
    before = surgery.output_names
    tags = ValueTags(hp=options.hp, origins=(options.name,))
    rank = len(surgery.shape(feature))
    result = append_affine(surgery, feature, pca.weight, pca.bias, options.name, rank=rank, tags=tags)
    surgery.set_outputs(replaced(before, feature, [result]))

    def expected(values: Values) -> Mapping[str, Expected]:
        others = {name: copied(values[name]) for name in before if name != feature}
        return {**others, result: affine_expected(values[feature], pca.weight, pca.bias)}

    return Edited(
        surgery.finish(),
        (result,),
        f"output '{feature}' of {pca.features} values became '{result}' of {pca.components}: (x - mean) matrix",
        tuple(before),
        expected,
        same_feeds,
    )

"""Append the projection (PCA) that belongs to one half of the face.

Change: the output x [1, F] of a half-face network becomes y = (x - mean) matrix with a PCA trained on the features
of that half alone. Two such halves are two descriptors of their own; a PCA of the full face weighs both halves
against each other, so this loses a little against it. split_full_face_pca loses nothing.
Options: as for add_pca.
Refused where the feature has another length than the file's mean; for a PCA of the full face, whose mean is twice
as long, the message says which edit takes it.
"""

from __future__ import annotations

from nnkit.graph import Model
from nnkit.recipe.restructure import HalfFacePca
from nnkit.rewrite.edit import Edit, Edited
from nnkit.rewrite.edits.add_pca import append_pca
from nnkit.rewrite.edits.projection import feature_length, pca_of
from nnkit.rewrite.surgery import Surgery


def make(options: HalfFacePca, where: str = "") -> Edit:
    """The edit with its options."""
    return Edit("half_face_pca", __doc__ or "", lambda model: _apply(model, options, where))


def _apply(model: Model, options: HalfFacePca, where: str) -> Edited:
    surgery = Surgery(model, where)
    feature = surgery.one_output(options.output)
    pca = pca_of(options.file)
    length = feature_length(surgery, feature)
    if pca.features == 2 * length:
        raise surgery.refused(
            f"'{options.file.text}' is a PCA of the full face ({pca.features} values), '{feature}' is one half "
            f"({length})",
            "use split_full_face_pca with this file, or train a PCA on the features of one half",
        )
    if pca.features != length:
        raise surgery.refused(
            f"'{options.file.text}' projects features of {pca.features} values, '{feature}' has {length}",
            "give the PCA that was trained on this half's feature",
        )
    return append_pca(model, surgery, feature, pca, options)

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
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.edits.add_pca import append_pca
from nnkit.rewrite.edits.projection import feature_length, pca_of
from nnkit.rewrite.naming import named_output


def make(options: HalfFacePca, where: str = "") -> Edit:
    """The edit with its options."""
    return Edit("half_face_pca", __doc__ or "", lambda model: _apply(model, options, where))


def _apply(model: Model, options: HalfFacePca, where: str) -> Edited:
    editor = Editor(model, where)
    feature = named_output(editor, options.output)
    pca = pca_of(options.file)
    length = feature_length(editor, feature)
    if pca.features == 2 * length:
        raise editor.refused(
            f"'{options.file.text}' is a PCA of the full face ({pca.features} values), '{feature.name}' is one half "
            f"({length})",
            "use split_full_face_pca with this file, or train a PCA on the features of one half",
        )
    if pca.features != length:
        raise editor.refused(
            f"'{options.file.text}' projects features of {pca.features} values, '{feature.name}' has {length}",
            "give the PCA that was trained on this half's feature",
        )
    return append_pca(editor, feature, pca, options)

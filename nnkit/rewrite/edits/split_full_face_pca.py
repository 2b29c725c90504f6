"""Split the full face's projection (PCA_combine) so that each half of the face computes its share.

Change: with the full face's features [X1, X2], mean [M1, M2] and matrix [W1; W2] (K components), and
m = -M1 W1 - M2 W2, the projection is X1 W1 + X2 W2 + m. One network sees one half, either one, at a time. The
output x [1, F] becomes the 2K + 2F values
  [x W1 + m/2, x W2 + m/2, x - M1, x - M2]
by one 1x1 convolution. From the left half the CPU takes X1 W1 + m/2 and X1 - M1, from the right half X2 W2 + m/2
and X2 - M2: the sum of the first two is the projection, the other two are the centred feature, to whose length it
is scaled again (postprocess: pca_combine).
Options: `file`, an .npz with mean [2F] and matrix [2F, K]; `output`; `name`; `hp`; `channels`, the most that one
convolution may have (4096, say). Where the 2K + 2F values exceed it, they are cut into several convolutions and
outputs NAME_0, NAME_1, ..., whose values follow one another; blocks are kept whole where they fit.
Refused where the file's mean is not twice as long as the feature.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from nnkit.graph import Model, ValueTags
from nnkit.recipe.restructure import SplitFullFacePca
from nnkit.rewrite.edit import Edit, Edited, Expected, Values, affine_expected, copied, same_feeds
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.edits.projection import append_affine, as_one_pixel, feature_length, pca_of, replace_output
from nnkit.rewrite.naming import named_output
from nnkit.rewrite.pca import Pca


def make(options: SplitFullFacePca, where: str = "") -> Edit:
    """The edit with its options."""
    return Edit("split_full_face_pca", __doc__ or "", lambda model: _apply(model, options, where))


def split_layer(pca: Pca) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weight [2K + 2F, F] and bias [2K + 2F] of the layer that each half runs, for a PCA of 2F values."""
    half = pca.features // 2
    first, second = pca.matrix[:half], pca.matrix[half:]  # W1, W2: [F, K]
    mean_left, mean_right = pca.mean[:half], pca.mean[half:]  # M1, M2: [F]
    shift = pca.bias / 2  # m / 2
    identity = np.eye(half)
    weight = np.concatenate([first.T, second.T, identity, identity])
    return weight, np.concatenate([shift, shift, -mean_left, -mean_right])


def output_sizes(blocks: Sequence[int], limit: int) -> list[int]:
    """Sizes of at most `limit` that add up to the blocks' sum; a block is cut only where it is larger itself."""
    sizes: list[int] = []
    for block in blocks:
        if sizes and sizes[-1] + block <= limit:
            sizes[-1] += block
            continue
        whole, rest = divmod(block, limit)
        sizes += [limit] * whole + ([rest] if rest else [])
    return sizes


def _apply(model: Model, options: SplitFullFacePca, where: str) -> Edited:
    editor = Editor(model, where)
    before = editor.output_names
    feature = named_output(editor, options.output)
    former = str(feature.name)
    pca = pca_of(options.file)
    length = feature_length(editor, feature)
    if pca.features != 2 * length:
        raise editor.refused(
            f"'{options.file.text}' projects features of {pca.features} values, but the two halves of '{former}' "
            f"have {2 * length}",
            "give the PCA of the full face: mean [2F] and matrix [2F, K], the left half first",
        )
    weight, bias = split_layer(pca)
    sizes = output_sizes([pca.components, pca.components, length, length], options.channels)
    ends = np.cumsum(sizes).tolist()
    ranges = list(zip([0, *ends[:-1]], ends, strict=True))
    names = [options.name] if len(ranges) == 1 else [f"{options.name}_{index}" for index in range(len(ranges))]
    tags = ValueTags(hp=options.hp, origins=(options.name,))
    pixel = as_one_pixel(editor, feature, options.name)
    appended = [
        append_affine(editor, pixel, weight[start:end], bias[start:end], name, rank=4, tags=tags)
        for name, (start, end) in zip(names, ranges, strict=True)
    ]
    replace_output(editor, feature, appended)
    results = [str(value.name) for value in appended]

    def expected(values: Values) -> Mapping[str, Expected]:
        outputs = {name: copied(values[name]) for name in before if name != former}
        for result, (start, end) in zip(results, ranges, strict=True):
            outputs[result] = affine_expected(values[former], weight[start:end], bias[start:end])
        return outputs

    effect = (
        f"output '{former}' of {length} values became {', '.join(repr(name) for name in results)} of "
        f"{' + '.join(str(size) for size in sizes)}: both halves' shares of {pca.components} components, and the "
        "feature centred with either mean"
    )
    return Edited(editor.finish_edit(), tuple(results), effect, tuple(before), expected, same_feeds)

"""Make the mask of attention finite by raising what it leaves: what it blocks becomes 0.

Pattern: that of `finite_mask`.
Algebra: a Softmax is that of its input plus what all of a row have more. So `finite_mask`'s k (x + m) +
  (1 - k) (min x - 24) may be k (x + m - min x + 24), in which nothing is repeated along the row but by arithmetic.
Declines for what `finite_mask` declines. (In formats with an exponent, what is raised by 24 has coarser steps.)
"""

from __future__ import annotations

from nnkit.rewrite.editor import Editor
from nnkit.rewrite.rule import Rule
from nnkit.rewrite.rules.finite_mask import Match, check, pattern, rewrite


def _rewrite(editor: Editor, match: Match) -> None:
    rewrite(editor, match, raised=True)


RULE = Rule("mask_above_zero", True, "blocks", __doc__ or "", pattern, check, _rewrite)

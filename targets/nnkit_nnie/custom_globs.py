"""Globs of the option `custom` that match no layer: a misspelt one would leave its layer on the NNIE, unnoticed."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from nnkit.did_you_mean import did_you_mean
from nnkit.errors import RecipeError
from nnkit_nnie.layers import Layer


def check_custom(globs: Sequence[str], layers: Sequence[Layer]) -> None:
    """Raises RecipeError for the first glob that matches no layer's name."""
    for glob in globs:
        if any(fnmatchcase(layer.name, glob) for layer in layers):
            continue
        whole = next(
            (layer.name for layer in layers for part in layer.in_place if fnmatchcase(part.name, glob)), None
        )
        names = [layer.name for layer in layers]
        raise RecipeError(
            f"custom: '{glob}' matches no layer of the network as it is divided"
            + (f", but an activation in place, which is part of layer '{whole}'" if whole else ""),
            where="targets.nnie.custom",
            remedy=f"name '{whole}'"
            if whole
            else did_you_mean(glob, names) or "`nnkit plan` without it lists the layers",
        )

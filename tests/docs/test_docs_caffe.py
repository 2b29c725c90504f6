"""docs/caffe.md lists the layers and operators that the code has."""

from __future__ import annotations

import re
from pathlib import Path

from nnkit.caffe.export.table import RULES
from nnkit.caffe.layers.table import LAYERS
from nnkit.custom_ops import CUSTOM_OPS

PAGE = (Path(__file__).parents[2] / "docs" / "caffe.md").read_text(encoding="utf-8")


def quoted(text: str) -> set[str]:
    return set(re.findall(r"`([A-Za-z0-9]+)`", text))


NOT_OF_CAFFE = {"Embedding", "FixedNonMaxSuppression"}
"""Operators of `ai.nnkit` that stand for those of ONNX."""


def test_the_table_of_layers_is_complete() -> None:
    rows = PAGE[PAGE.index("| family | types |") : PAGE.index("Of these,")]
    assert quoted(rows) == set(LAYERS)
    own = PAGE[PAGE.index("Of these,") : PAGE.index("become operators of the ONNX domain")]
    assert quoted(own) == set(CUSTOM_OPS) - NOT_OF_CAFFE


def test_the_list_of_operators_is_complete() -> None:
    rules = PAGE[PAGE.index("by the rule for its operator:") : PAGE.index(", and those of `ai.nnkit`")]
    assert quoted(rules) | (set(CUSTOM_OPS) - NOT_OF_CAFFE) == set(RULES)

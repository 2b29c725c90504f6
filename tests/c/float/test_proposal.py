"""Proposal in C against its definition in numpy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from nnkit.custom_ops import Proposal

Check = Callable[..., None]


def test_proposal(agrees: Check) -> None:
    random = np.random.default_rng(4)
    scores = np.round(random.uniform(size=(1, 18, 6, 7)) * 64) / 64
    inputs = {
        "scores": scores.astype(np.float32),
        "deltas": (random.normal(size=(1, 36, 6, 7)) * 0.2).astype(np.float32),
        "info": np.array([[96, 112, 1.5]], np.float32),
    }
    op = Proposal(scale=(1.0, 2.0, 4.0), pre_nms_topn=100, post_nms_topn=20, min_size=8.0)
    variants = {
        "some": op,
        "many": replace(op, post_nms_topn=300, pre_nms_topn=6000),
        "large": replace(op, min_size=60.0),
    }
    nodes = [variant.node(["scores", "deltas", "info"], [name]) for name, variant in variants.items()]
    # coordinates of up to 112 pixels: a unit in the last place of exp
    agrees(nodes, inputs, atol=3e-5)

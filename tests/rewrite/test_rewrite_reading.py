"""What rules read of a constant."""

from __future__ import annotations

import numpy as np
import pytest

from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import scalar_of


@pytest.mark.parametrize(
    ("constant", "number"),
    [
        (np.full((1, 3, 8, 1), 2.5), 2.5),
        (np.full((1, 3, 8, 2), -1.0), -1.0),
        (np.arange(24.0).reshape(1, 3, 8, 1), None),
        (np.zeros((1, 3, 8, 0)), None),
    ],
)
def test_a_constant_of_equal_elements_is_one_number(graphs, constant, number):
    net = graphs.Net(x=(1, 3, 8, 8))
    editor = Editor(
        net.model(net.op("Concat", net.op("Relu", "x", name="relu"), net.const(constant), name="join", axis=3))
    )
    join = next(node for node in editor.graph if node.name == "join")
    assert scalar_of(editor, join.inputs[1]) == number
    assert scalar_of(editor, join.inputs[0]) is None
    assert scalar_of(editor, None) is None

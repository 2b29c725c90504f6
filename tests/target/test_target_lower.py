"""What no target can run is refused by all of them alike, when the network is lowered and with the same reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_node import model_of
from onnx import helper

from nnkit.errors import ModelError
from nnkit.rewrite import RewriteLog
from nnkit.target import load_target

OPTIONS: dict[str, dict[str, Any]] = {
    "gap8": {},
    "nnie": {"chip": "hi3516cv500"},
    "onnx_qdq": {},
    "tpu": {"chip": "bm1684x"},
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize(
    ("computed", "words"), [(("w",), "weights are not constant"), (("b",), "bias is not constant")]
)
def test_a_convolution_with_computed_weights_or_bias(name: str, computed: str, words: str) -> None:
    arrays = {"w": np.ones((4, 3, 3, 3), np.float32), "b": np.ones(4, np.float32)}
    inputs = {"x": (1, 3, 8, 8), **{each: arrays[each].shape for each in computed}}
    constants = {each: array for each, array in arrays.items() if each not in computed}
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], name="layer")
    target = load_target(name)
    with pytest.raises(ModelError) as caught:
        target.lower(
            model_of([node], inputs, constants, ("y",)), RewriteLog(), target.options.model_validate(OPTIONS[name])
        )
    assert "layer (Conv" in caught.value.reason
    assert words in caught.value.reason

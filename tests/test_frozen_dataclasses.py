"""What goes between stages cannot be changed, and is not compared by `==` where that would compare arrays."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from types import ModuleType

import nnkit
import nnkit_gap8
import nnkit_nnie
import nnkit_onnx_qdq
import nnkit_tpu

_EXTRAS = ("nnkit.memory.kernels_numba", "nnkit.__main__")


_ARRAYS = re.compile(r"\b(NDArray|Array|IntArray|FloatArray)\b")
_COLLECTORS = {
    "NetworkWriter",  # of the Caffe export, with the layers written so far
    "WrittenLayer",
    "Builder",  # of the TFLite import, with the nodes written so far
    "StepState",  # of the importer's tools, which pass the network on
    "OpWatch",
    "Watch",
    "Count",  # of the numbers of a compiled network
    "LayerNumbers",
    "Moments",
    "PartSums",
    "Group",  # of formats, while they are settled
    "Progress",
    "StageTiming",
}
"""They gather what is seen, inside one stage."""


def modules(package: ModuleType) -> Iterator[ModuleType]:
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if info.name not in _EXTRAS:
            yield importlib.import_module(info.name)


def dataclasses_of_all_rooms() -> list[type]:
    packages = (nnkit, nnkit_gap8, nnkit_nnie, nnkit_onnx_qdq, nnkit_tpu)
    return sorted(
        {
            entry
            for package in packages
            for module in modules(package)
            for entry in vars(module).values()
            if isinstance(entry, type) and is_dataclass(entry) and entry.__module__ == module.__name__
        },
        key=lambda entry: (entry.__module__, entry.__qualname__),
    )


PUBLIC = [entry for entry in dataclasses_of_all_rooms() if not entry.__name__.startswith("_")]


def test_public_dataclasses_are_frozen() -> None:
    assert {entry.__name__ for entry in PUBLIC if not entry.__dataclass_params__.frozen} == _COLLECTORS


def test_what_has_arrays_or_a_digest_is_not_compared_by_its_fields() -> None:
    """`==` of arrays is an array, so that a comparison of the fields would raise instead of answer."""
    compared = {
        entry.__qualname__
        for entry in PUBLIC
        if entry.__dataclass_params__.eq
        and (hasattr(entry, "digest") or any(_ARRAYS.search(str(field.type)) for field in fields(entry)))
    }
    assert compared == set()

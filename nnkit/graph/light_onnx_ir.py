"""Imports onnx-ir without sympy, which takes most of the time of its import and serves only symbolic dimensions.

The shapes of a Model are numbers, so that what would need sympy is never reached here. Where it is reached, it loads.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

_AT_FIRST_USE = frozenset({"sympy", "onnx_ir._symbolic_shapes"})


class _AtFirstUse:
    """Finds modules as Python does, and has these load when an attribute of theirs is asked for."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in _AT_FIRST_USE:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def import_onnx_ir() -> ModuleType:
    """onnx-ir; once it is imported, `import onnx_ir` anywhere gives the same."""
    with ExitStack() as stack:
        if "onnx_ir" not in sys.modules:
            finder = _AtFirstUse()
            sys.meta_path.insert(0, finder)
            stack.callback(sys.meta_path.remove, finder)
        import onnx_ir
    return onnx_ir

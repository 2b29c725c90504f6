"""Kernels whose work cores share: the function that `parts.c.j2` has for one calls it for a part of the work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from nnkit.c.affine.call import Call, Kernel

_TEMPLATES: Mapping[str, str] = MappingProxyType(
    {
        "conv": "conv",
        "depthwise": "depthwise",
        "pool": "pool",
        **dict.fromkeys(("add", "mul", "rescale", "copy", "lookup"), "elementwise"),
    }
)
"""By structure the templates of the kernels whose work can be shared."""


def on_parts(call: Call) -> Call | None:
    """The call of a kernel whose work cores share, each with scratch of its own; None: the kernel has no parts."""
    kernel = call.kernel
    if kernel.structure not in _TEMPLATES or kernel.values.get("way"):
        return None
    # Parts of a convolution begin within the pixels that it computes together, and may not write over its input.
    accesses = None if kernel.structure == "conv" else call.accesses
    return replace(
        call,
        kernel=Kernel("parts", kernel.structure, (*kernel.variant, ("parts", "parts"))),
        accesses=accesses,
    )


def called_by(kernel: Kernel) -> Kernel:
    """What each part of a kernel made by `on_parts` calls."""
    return Kernel(_TEMPLATES[kernel.structure], kernel.structure, kernel.variant[:-1])

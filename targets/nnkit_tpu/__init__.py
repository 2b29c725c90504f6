"""The tpu target: Sophgo's Tensor Computing Processors."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """`TARGET`, imported when it is asked for: the process of the chip model needs neither it nor a recipe."""
    if name != "TARGET":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from nnkit_tpu.target import TpuTarget

    target = globals()[name] = TpuTarget
    return target

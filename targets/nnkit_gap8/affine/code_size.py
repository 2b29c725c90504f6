"""The most that instructions and constants of a network of the affine scheme take.

Bounds of objects for rv32imc (gcc 12.2, the flags of `compile_flags`): every function of the operators' tests, each
compiled alone, and a tenth more. The tests compare them with what the compiler makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from nnkit.c.affine.call import Kernel
from nnkit.c.affine.packed import image_kernel
from nnkit.c.affine.parts import called_by
from nnkit.c.affine.statements import Statements
from nnkit.memory.plan import MemoryPlan
from nnkit_gap8.affine.cluster import has_image
from nnkit_gap8.affine.plan import AffinePlan

_KERNELS: Mapping[tuple[str, str], int] = MappingProxyType(
    {
        ("conv", "conv"): 2400,
        ("depthwise", "depthwise"): 900,
        ("elementwise", "add"): 720,
        ("elementwise", "mul"): 700,
        ("elementwise", "rescale"): 620,
        ("elementwise", "lookup"): 64,
        ("elementwise", "copy"): 160,
        ("embedding", "embedding"): 100,
        ("move", "gather"): 80,
        ("move", "move"): 420,
        ("packed", "packed"): 2200,
        ("packed", "packed_depthwise"): 1100,
        ("parts", "pool"): 460,
        ("pool", "pool"): 1050,
        ("rows", "matmul"): 900,
        ("rows", "normalize"): 1750,
        ("softmax", "softmax"): 660,
        ("softmax", "log_softmax"): 740,
    }
)
"""Bytes of a function with those inside that it alone calls, by template and structure."""
_WIDE: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"conv": (3100, 7200), "depthwise": (950, 1350), "matmul": (3400, 3400)}
)
"""The same with sums of 64 bits, and where 64 bits are requantised, by structure."""
_IMAGE, _PARTS, _OTHER = 760, 280, 3400
_RUN, _PORT = 240, 64  # of `<name>_run`; of an input or output that is copied
_FETCH, _WAIT, _CALL, _ARGUMENT, _TILED, _SHARED = 42, 16, 12, 9, 150, 110
_TILING, _TILES = 192, 2600  # a call's tiles; what cuts calls into them


def affine_code_bytes(planned: AffinePlan) -> int:
    """Instructions and constants."""
    network = planned.network
    statements = network.statements(planned.weights)
    program = network.program
    total = sum(kernel_bytes(kernel) for kernel in kernels_of(planned, statements))
    total += sum(4 * (text.count(",") + 1) for text in statements.constants)
    total += _RUN + _PORT * (len(program.inputs) + len(program.outputs)) + sum(_steps(planned, statements))
    if planned.tiles is not None:
        total += _TILES + _TILING * len(planned.tiles.steps)
    return total


def kernel_bytes(kernel: Kernel) -> int:
    """The most that a function takes."""
    if kernel.template == "parts" and kernel.structure != "pool":
        return _PARTS
    if kernel.values.get("image"):
        return _IMAGE
    if kernel.template != "parts" and kernel.structure in _WIDE:
        sums, requantized = _WIDE[kernel.structure]
        if "wide" in kernel.values.values():
            return requantized
        if "s64" in kernel.values.values():
            return sums
    return _KERNELS.get((kernel.template, kernel.structure), _OTHER)


def kernels_of(planned: AffinePlan, statements: Statements) -> list[Kernel]:
    """The functions that are called, those that make images and those that parts call among them."""
    kernels = set(statements.kernels)
    for step in statements.steps:
        call = planned.network.work.calls[step]
        if call.kernel.template == "parts":
            kernels.add(called_by(call.kernel))
        elif call.kernel.template == "packed" and has_image(call):
            kernels.add(image_kernel(call.kernel))
    return sorted(kernels, key=lambda kernel: kernel.name)


def _steps(planned: AffinePlan, statements: Statements) -> list[int]:
    """Bytes of each call in `<name>_run`, and of the copies of weights."""
    plan: MemoryPlan = planned.plan
    sizes = [(_FETCH + _WAIT) * len(plan.chunks)]
    for step in statements.steps:
        call = planned.network.work.calls[step]
        if planned.tiles is not None and call.kernel.template in ("packed", "parts"):
            sizes.append(_TILED if step in planned.tiles.steps else _SHARED)
        else:
            sizes.append(_CALL + _ARGUMENT * (2 + len(call.reads) + len(call.tables) + bool(call.scratch_bytes)))
    return sizes

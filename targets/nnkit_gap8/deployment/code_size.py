"""The most that instructions and constants of several networks and of the stages between them take.

Networks are bounded alone, and so each has kernels of its own, as it has in C. Of stages the bounds are of what was
measured of objects for rv32imc (gcc 12.2, the flags of `compile_flags`). The tests compare them with the compiler.
"""

from __future__ import annotations

from collections.abc import Sequence

from nnkit.deployed import Deployed, FaceMatchStages, NetworkPart
from nnkit_gap8.code_choice import code_room_bytes
from nnkit_gap8.code_size import StepsForm, code_bytes
from nnkit_gap8.options import Gap8Options

_STAGES, _PRIOR, _CONSTANTS = 8000, 16, 256  # stages with what calls them; a prior; factors and sizes
_ENTRY = 200  # of a network


def steps_forms(deployed: Deployed, options: Gap8Options) -> tuple[StepsForm, ...]:
    """The form of each network as its options say; `auto`: what is smaller where L2 may have no room for calls."""
    calls: tuple[StepsForm, ...] = tuple(
        "table" if part.options.steps == "table" else "calls" for part in deployed.parts
    )
    if deployed_code_bytes(deployed, calls) <= code_room_bytes(deployed.joint.plan, options):
        return calls
    return tuple(
        min(("calls", "table"), key=lambda each: _network_bytes(deployed, part, each))
        if part.options.steps == "auto"
        else part.options.steps
        for part in deployed.parts
    )


def _network_bytes(deployed: Deployed, part: NetworkPart, form: StepsForm) -> int:
    return code_bytes(part.program, deployed.plan_of(part.name), part.options, form)


def deployed_code_bytes(deployed: Deployed, forms: Sequence[StepsForm]) -> int:
    """Instructions and constants. forms: of each network."""
    parts = zip(deployed.parts, forms, strict=True)
    return _stages_bytes(deployed.stages) + sum(_ENTRY + _network_bytes(deployed, part, form) for part, form in parts)


def _stages_bytes(stages: FaceMatchStages | None) -> int:
    return 0 if stages is None else _STAGES + _CONSTANTS + _PRIOR * len(stages.detect.priors)

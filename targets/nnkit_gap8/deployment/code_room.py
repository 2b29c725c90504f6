"""Whether several networks, what lives between them and the code of all fit L2 together."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from nnkit.deployed import Deployed
from nnkit.errors import DoesNotFitError
from nnkit_gap8.chip_fit import check_code_fits, code_size, measured_of
from nnkit_gap8.code_choice import ROUNDS, code_room_bytes
from nnkit_gap8.deployment.code_size import deployed_code_bytes, steps_forms
from nnkit_gap8.deployment.emit import deployment_files
from nnkit_gap8.deployment.runners import compiled_code_bytes
from nnkit_gap8.options import Gap8Options


def check_room(deployed: Deployed, options: Gap8Options, planned: Callable[[Gap8Options], Deployed]) -> None:
    """Raise DoesNotFitError where they do not. planned: the same networks under other options; raises it too."""
    check_code_fits(
        deployed.name,
        deployed.joint.plan,
        options,
        _most_bytes(deployed, options),
        lambda: _measured_bytes(deployed, options),
        lambda code_bytes: _remedy(code_bytes, options, planned),
    )


def _most_bytes(deployed: Deployed, options: Gap8Options) -> int:
    return deployed_code_bytes(deployed, steps_forms(deployed, options))


def _measured_bytes(deployed: Deployed, options: Gap8Options) -> int:
    return measured_of(deployment_files(deployed, options), compiled_code_bytes)


def _remedy(code_bytes: int, options: Gap8Options, planned: Callable[[Gap8Options], Deployed]) -> str:
    """An `l2` that leaves enough for the code, where a plan with it was found."""
    capacity = options.memory.on_chip_l2_bytes
    for _ in range(ROUNDS):
        left = capacity - code_bytes
        other = options.model_copy(update={"memory": options.memory.model_copy(update={"l2": left})})
        try:
            plan = planned(other)
        except DoesNotFitError as error:
            return (
                "choose smaller networks, or a smaller frame or gallery: with `memory: "
                f"{{l2: {left}}}`, which leaves enough for the code, {error.reason}"
            )
        peak_bytes = plan.joint.plan.regions["l2"].peak_bytes
        room = code_room_bytes(plan.joint.plan, other)
        code = code_size(_most_bytes(plan, other), room, partial(_measured_bytes, plan, other))
        if code.size_bytes <= room:
            return (
                f"set `memory: {{l2: {left}}}` in the deployment's recipe: the plan then takes {peak_bytes:,} bytes, "
                f"the code {code}"
            )
        code_bytes = code.size_bytes
    return "choose smaller networks, or a smaller frame or gallery"

"""Several networks in one L2: each planned with what is left to it, then all together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from nnkit.c.fixed.catalogue import operator_c
from nnkit.deployed import Deployed, FaceMatchStages, NetworkPart
from nnkit.deployed.parts import order_of, survivors_of
from nnkit.errors import DoesNotFitError
from nnkit.memory.checker import check_plan
from nnkit.memory.joint_checker import check_joint_plan
from nnkit.memory.joint_plan import RESERVED, JointPlan, join, kept_bytes
from nnkit.memory.plan import MemoryPlan
from nnkit.target import Deployer, PipelineRunner
from nnkit_gap8.cluster.build import Cluster
from nnkit_gap8.emit import CONTEXT_BYTES, STACK_BYTES
from nnkit_gap8.options import Gap8Options

PIPELINE_STACK_BYTES = STACK_BYTES + 256
"""Stack of a network and of the functions that call it; `runners.Rv32Runner` proves that the code stays inside."""


class Gap8Deployer(Deployer):
    """See the module."""

    shared = ("memory", "cluster", "cores")

    def refusal(self, options: Gap8Options) -> str | None:
        """Networks of the affine scheme are built alone, and code is kept for one network."""
        if options.memory.code is not None:
            return "`memory.code` is for one network alone"
        return None if options.scheme == "power_of_two" else f"`scheme: {options.scheme}` is for one network alone"

    def network_options(self, options: Gap8Options, stages: FaceMatchStages | None) -> Gap8Options:
        """L2 less the frame, the gallery and the like; context and stack of a network count once for all."""
        survivors = survivors_of(stages, context_bytes=CONTEXT_BYTES, stack_bytes=PIPELINE_STACK_BYTES)
        kept = kept_bytes([survivor for survivor in survivors if survivor.kind not in RESERVED])
        kept += PIPELINE_STACK_BYTES - STACK_BYTES
        left = options.memory.l2 - kept
        if left < CONTEXT_BYTES + STACK_BYTES:
            raise DoesNotFitError(
                f"what lives between the networks takes {kept:,} bytes of {options.memory.l2:,}",
                where="l2",
                remedy="choose a smaller frame or gallery, or give l2 more",
            )
        return options.model_copy(update={"memory": options.memory.model_copy(update={"l2": left})})

    def join(
        self,
        parts: Sequence[NetworkPart],
        plans: Mapping[str, MemoryPlan],
        stages: FaceMatchStages | None,
        options: Gap8Options,
    ) -> JointPlan:
        """Networks from the start of L2, what survives around their buffers, context and stack behind; checked."""
        order = order_of(parts, stages)
        survivors = survivors_of(stages, context_bytes=CONTEXT_BYTES, stack_bytes=PIPELINE_STACK_BYTES)
        joint = join(order, plans, survivors, options.regions(), shared="l2", weights="l3")
        for part in parts:
            _check_network(part, joint.networks[part.name])
        check_joint_plan(joint, order, survivors)
        return joint

    def check_room(
        self, deployed: Deployed, options: Gap8Options, planned: Callable[[Gap8Options], Deployed]
    ) -> None:
        """Code of all networks and of the stages beside the plan in L2."""
        from nnkit_gap8.deployment.code_room import check_room

        check_room(deployed, options, planned)

    def emit(self, deployed: Deployed, options: Gap8Options, folder: Path) -> None:
        """One C project with an entry for each network, and the stages between."""
        from nnkit.generated import write_sources
        from nnkit_gap8.deployment.emit import deployment_files

        write_sources(folder, deployment_files(deployed, options))

    def runners(self, options: Gap8Options) -> tuple[PipelineRunner, ...]:
        """This host, rv32imc with the chip's memories under QEMU, and with `cluster` a simulated cluster."""
        from nnkit_gap8.deployment.runners import GvsocPipelineRunner, HostPipelineRunner, Rv32PipelineRunner

        if options.cluster is None:
            return (HostPipelineRunner(), Rv32PipelineRunner())
        return (HostPipelineRunner(), Rv32PipelineRunner(), GvsocPipelineRunner())


def _check_network(part: NetworkPart, plan: MemoryPlan) -> None:
    """The network's own plan again, with its weights where they lie now."""
    machine = part.options.core_machine()
    if part.options.cluster is None:
        check_plan(part.program, plan, lambda op: operator_c(op).needs(op, part.program, machine))
        return
    cluster = Cluster(part.program, machine)
    tiles = cluster.tile_plan(plan)
    check_plan(part.program, plan, lambda op: cluster.needs(op, tiles))

"""Artifacts for the cluster, planned and emitted as a build does it."""

from __future__ import annotations

from pathlib import Path

from nnkit.program import Program
from nnkit_gap8.checked_plan import checked_plan
from nnkit_gap8.cluster.build import Cluster
from nnkit_gap8.cluster.tile_plan import TilePlan
from nnkit_gap8.emit import emit_artifact
from nnkit_gap8.options import Gap8Cluster, Gap8Memory, Gap8Options


def cluster_options(l1_bytes: int = 48 << 10, cores: int = 8, l2_bytes: int = 8 << 20) -> Gap8Options:
    """Options with a cluster, and L2 for networks of many inputs."""
    memory = Gap8Memory(l2=l2_bytes, larger_chip=True)
    return Gap8Options(memory=memory, cluster=Gap8Cluster(l1=l1_bytes, cores=cores))


def write_cluster_artifact(
    program: Program, folder: Path, options: Gap8Options, *, as_table: bool = False
) -> TilePlan:
    """Plan `program`, emit it into `folder`; returns how its layers are cut."""
    plan = checked_plan(program, options)
    cluster = Cluster(program, options.core_machine())
    files = emit_artifact(program, plan, options.core_machine(), "net", cluster, as_table=as_table)
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return cluster.tile_plan(plan)

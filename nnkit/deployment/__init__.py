"""Building a deployment: several networks, each built and verified alone, then planned and verified together."""

from nnkit.deployment.build import (
    DeploymentBuild,
    DeploymentOutcome,
    DeploymentPlan,
    deployment_build,
    plan_deployment,
    run_deployment,
)

__all__ = [
    "DeploymentBuild",
    "DeploymentOutcome",
    "DeploymentPlan",
    "deployment_build",
    "plan_deployment",
    "run_deployment",
]

"""A recipe of recipes: several networks in one memory budget, and what lies between them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field, SerializeAsAny, model_validator

from nnkit.recipe.base import Fault, RecipeModel, faults
from nnkit.recipe.placed import Placed
from nnkit.recipe.sections import ReleaseSection, TargetOptionsBase
from nnkit.recipe.types import FileName, PathGlobs, RecipePath

DEPLOYMENT = "deployment"

NOT_IN_A_DEPLOYMENT = ("model", "restructure", "tags", "calibration", "postprocess", "verify", "sweep")
"""Keys of a network's recipe that one of several networks has not."""

_NETWORK_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")

Side = Annotated[int, Field(ge=1, le=8_192)]
"""A side of a frame; a box may reach as far again beyond it, and stay within what the crop takes."""


class DeployedNetwork(RecipeModel):
    """One network of a deployment: its own recipe says all of it but the memory that it shares."""

    recipe: RecipePath = Field(description="The network's recipe.", examples=["detector.yaml"])
    target: str | None = Field(
        default=None,
        description="Which of that recipe's `targets`, where several are for the deployment's target; `null`: the "
        "only one.",
        examples=["my_npu@int8"],
    )


class FacesToVerify(RecipeModel):
    """The pictures that the whole pipeline is run on, in Python and on every runner, value by value."""

    frames: PathGlobs = Field(
        description="Frames: they are searched, before and after the gallery was stored, loaded and lost a person.",
        examples=["frames/*.png"],
    )
    enrol: Mapping[str, PathGlobs] = Field(
        default={},
        description="Frames of each person whom the gallery gets to know before that, by name.",
        examples=["{ada: enrol/ada.png}"],
    )


class FaceMatch(RecipeModel):
    """A camera frame to names: detector, the detections of its `ssd` or `nms`, the `face_crop` of each face, its
    descriptor, and the `match` against a gallery of people, which can be enrolled, removed and stored."""

    kind: Literal["face_match"] = Field(description="What the networks do together.")
    detector: str = Field(description="The network that finds faces; its recipe has `ssd` or `nms`.")
    descriptor: str = Field(description="The network that describes one; its recipe has `face_crop` and `match`.")
    frame: tuple[Side, Side] = Field(
        description="Height and width of a gray camera frame: those of the detector's input, or a whole multiple.",
        examples=[[240, 320]],
    )
    faces: int = Field(default=4, ge=1, le=256, description="Most faces of a frame that are described, best first.")
    name_bytes: int = Field(
        default=16, ge=4, le=64, multiple_of=4, description="Of a name in UTF-8, with the 0 that ends it."
    )
    verify: FacesToVerify | None = Field(
        default=None, description="What each run verifies the pipeline on; `null`: each network alone is verified."
    )


class Deployment(RecipeModel):
    """Several networks that never run at once and share the target's memory."""

    networks: Mapping[str, DeployedNetwork] = Field(
        min_length=1,
        description="The networks in the order in which they run, by the names that they get in C.",
    )
    pipeline: FaceMatch | None = Field(
        default=None, description="What lies between the networks; `null`: nothing, the application calls them."
    )


class DeploymentBody(RecipeModel):
    """All of a deployment's recipe but its target."""

    nnkit: Literal[1] = Field(description="Version of the recipe format.")
    name: FileName = Field(description="Names the output folder, the release and the pipeline in C.")
    deployment: Deployment = Field(description="The networks and what lies between them.")
    release: ReleaseSection = Field(default=ReleaseSection(), description="The release package.")

    @model_validator(mode="after")
    def _networks_are_there(self) -> DeploymentBody:
        problems = [*_name_faults(self.deployment), *_pipeline_faults(self.deployment)]
        if problems:
            raise faults(problems)
        return self


class DeploymentRecipe(Placed, DeploymentBody):
    """A valid recipe of a deployment. Made by `nnkit.recipe.load_deployment`."""

    targets: Mapping[str, SerializeAsAny[TargetOptionsBase]] = Field(
        description="The one target, with the options that hold for all networks instead of their own: memory, cores."
    )

    @property
    def key(self) -> str:
        """The target's key."""
        return next(iter(self.targets))


def _name_faults(deployment: Deployment) -> Iterator[Fault]:
    for name in deployment.networks:
        if _NETWORK_NAME.fullmatch(name) is None:
            remedy = "use up to 31 small letters, digits and '_', beginning with a letter"
            yield Fault((DEPLOYMENT, "networks", name), f"'{name}' cannot name a network in C", remedy)


def _pipeline_faults(deployment: Deployment) -> Iterator[Fault]:
    pipeline, names = deployment.pipeline, list(deployment.networks)
    if pipeline is None:
        return
    at = (DEPLOYMENT, "pipeline")
    known = ", ".join(names)
    for role in ("detector", "descriptor"):
        if getattr(pipeline, role) not in names:
            reason = f"there is no network '{getattr(pipeline, role)}'"
            yield Fault((*at, role), reason, f"write one of {known}")
    if pipeline.detector == pipeline.descriptor:
        yield Fault((*at, "descriptor"), f"'{pipeline.descriptor}' is the detector", "name another network")
    both = {pipeline.detector, pipeline.descriptor}
    for name in names if len(both) == 2 and both <= set(names) else ():
        if name not in both:
            reason = f"the pipeline does not use the network '{name}'"
            yield Fault((DEPLOYMENT, "networks", name), reason, "remove it, or deploy it without a pipeline")
    if both <= set(names) and names.index(pipeline.detector) > names.index(pipeline.descriptor):
        reason = f"'{pipeline.descriptor}' runs before '{pipeline.detector}'"
        yield Fault((DEPLOYMENT, "networks"), reason, "write the detector first")
    for person in pipeline.verify.enrol if pipeline.verify is not None else ():
        if not 1 <= len(person.encode()) < pipeline.name_bytes or "\0" in person:
            reason = f"'{person}' has {len(person.encode())} bytes, a name has 1 to {pipeline.name_bytes - 1}"
            yield Fault((*at, "verify", "enrol", person), reason, "shorten it, or raise name_bytes")

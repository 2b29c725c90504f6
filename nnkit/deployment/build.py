"""From the recipe of a deployment to a verified release: every network, then all together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.build_status import RELEASED, Status
from nnkit.cache import StageCache
from nnkit.deployed import Deployed, FaceMatchStages, NetworkPart
from nnkit.deployed.face_match import face_match_of
from nnkit.deployment.networks import Networks, check_names, network_recipes, with_options, within_what_is_left
from nnkit.errors import DoesNotFitError, RecipeError
from nnkit.executors import THIS_HOST, ExecutorChoice
from nnkit.inputs import picture_inputs
from nnkit.pipeline import Finished, Prepared, finish, prepare, preview, refuse
from nnkit.program import Program
from nnkit.recipe.deployment import DeploymentRecipe
from nnkit.report.progress import Progress
from nnkit.report.staging import staged_build
from nnkit.serialize import encode
from nnkit.stages import Build, quantize
from nnkit.target import AnyTarget, Deployer, check_required, load_target

if TYPE_CHECKING:
    from nnkit.memory.plan import MemoryPlan
    from nnkit.stages import Preview


@dataclass(frozen=True, eq=False)
class DeploymentBuild:
    """What a run of a deployment needs. networks: the build of each, in order."""

    recipe: DeploymentRecipe
    target: AnyTarget
    deployer: Deployer
    networks: Mapping[str, Build]
    progress: Progress
    emulate: bool

    @property
    def key(self) -> str:
        """The target's key."""
        return self.recipe.key

    @property
    def options(self) -> Any:
        """The target's options that all networks share."""
        return self.recipe.targets[self.key]


@dataclass(frozen=True)
class DeploymentOutcome:
    """What a run left."""

    folder: Path
    status: Status
    report: dict[str, Any]


@dataclass(frozen=True, eq=False)
class DeploymentPlan:
    """What a dry run finds. previews: of each network."""

    deployed: Deployed
    previews: Mapping[str, Preview]


def deployment_build(
    recipe: DeploymentRecipe,
    progress: Progress,
    *,
    cache: bool = True,
    emulate: bool = True,
    executor: ExecutorChoice = THIS_HOST,
    trust: bool = False,
) -> DeploymentBuild:
    """Load the networks' recipes. Raises InvalidRecipeError, RecipeError for what does not go together."""
    target = load_target(recipe.key)
    deployer = deployer_of(recipe, target)
    networks: Networks = network_recipes(recipe, deployer)
    check_names(recipe)
    store = StageCache.default() if cache else StageCache.disabled()
    builds = {}
    for name, (own, key) in networks.items():
        check_required(own)
        builds[name] = Build(
            own, key, target, own.targets[key], store, progress, emulate, executor, trust, alone=False
        )
    return DeploymentBuild(recipe, target, deployer, builds, progress, emulate)


def deployer_of(recipe: DeploymentRecipe, target: AnyTarget) -> Deployer:
    """What puts networks together. Raises RecipeError where the target has none."""
    deployer = target.deployer()
    if deployer is None:
        raise RecipeError(
            f"the target {recipe.key} runs one network at a time alone",
            where=recipe.where("targets", recipe.key),
            remedy="build its networks one by one",
        )
    return deployer


def run_deployment(build: DeploymentBuild, out: Path) -> DeploymentOutcome:
    """Build in `out/<name>/<target>`: `networks/<network>` of each, `artifact` and reports of all."""
    from nnkit.deployment.report import write_report
    from nnkit.deployment.verify import verify_pipeline
    from nnkit.stages.packaging import pack, signing_key

    signing_key(build.recipe)
    for network in build.networks.values():
        refuse(network)
    with staged_build(out / build.recipe.name / build.key) as staged:
        prepared, stages = _prepared(build)
        finished: dict[str, Finished] = {}
        for name, each in prepared.items():
            folder = staged.folder / "networks" / name
            folder.mkdir(parents=True)
            build.progress.line(f"{name}: placed and written")
            with within_what_is_left(name):
                finished[name] = finish(each, folder)
            _page(each.build, folder)
        build.progress.line(f"{build.recipe.name}: all together")
        deployed = _joined(build, prepared, {name: each.plan for name, each in finished.items()}, stages)
        build.deployer.check_room(deployed, build.options, lambda options: _planned_with(build, options))
        artifact = staged.folder / "artifact"
        artifact.mkdir()
        with build.progress.stage("emit") as step:
            build.deployer.emit(deployed, build.options, artifact)
            step.detail = f"{sum(1 for path in artifact.rglob('*') if path.is_file())} files"
        verdict = verify_pipeline(build, prepared, deployed, artifact, staged.folder)
        report = write_report(build, deployed, finished, verdict, staged.folder)
        status: Status = report["status"]
        pack(build.progress, build.recipe, status, staged.folder)
        _joint_page(build, staged.folder)
        folder = staged.commit(failed=status not in RELEASED)
    return DeploymentOutcome(folder, status, report)


def plan_deployment(build: DeploymentBuild) -> DeploymentPlan:
    """The dry run: every network up to its memory plan, and the plan of all; nothing is written.

    Without calibration images of a network formats are not known, and the plan is that of the widest.
    """
    plan = _dry_run(build)
    build.deployer.check_room(plan.deployed, build.options, lambda options: _planned_with(build, options))
    return plan


def _planned_with(build: DeploymentBuild, options: Any) -> Deployed:
    """As `plan_deployment` finds with other options that all share, silently. Raises DoesNotFitError."""
    shared = {name: getattr(options, name) for name in build.deployer.shared}
    recipe = build.recipe.model_copy(update={"targets": {build.key: options}})
    quiet = Progress(quiet=True, stream=None)
    networks = {
        name: replace(_within(network, name, network.options.model_copy(update=shared)), progress=quiet)
        for name, network in build.networks.items()
    }
    return _dry_run(replace(build, recipe=recipe, networks=networks, progress=quiet)).deployed


def _dry_run(build: DeploymentBuild) -> DeploymentPlan:
    """As `plan_deployment`, without what the plan does not place."""
    previews = {name: preview(network) for name, network in build.networks.items()}
    parts = tuple(_part(build.networks[name], name, each.program) for name, each in previews.items())
    stages = _stages_of(build, {name: each.program for name, each in previews.items()})
    plans = {name: each.plan for name, each in previews.items()}
    left = {name: build.deployer.network_options(network.options, stages) for name, network in build.networks.items()}
    if any(left[name] != build.networks[name].options for name in left):
        plans = {}
        for name, each in previews.items():
            try:
                plans[name] = build.target.plan(each.settled.lowered, each.program, left[name])
            except DoesNotFitError:  # the program was made for more, maybe with wide layers whole
                with within_what_is_left(name):
                    previews[name] = again = preview(_within(build.networks[name], name, left[name]))
                plans[name] = again.plan
        parts = tuple(replace(part, program=previews[part.name].program, options=left[part.name]) for part in parts)
        stages = _stages_of(build, {name: each.program for name, each in previews.items()})
    joint = build.deployer.join(parts, plans, stages, build.options)
    return DeploymentPlan(Deployed(build.recipe.name, parts, stages, joint), previews)


def _prepared(build: DeploymentBuild) -> tuple[dict[str, Prepared], FaceMatchStages | None]:
    """The networks' programs, and their builds with the memory that is left to each."""
    prepared = {}
    for name, network in build.networks.items():
        build.progress.line(name)
        prepared[name] = prepare(network)
    stages = _stages_of(build, {name: each.program for name, each in prepared.items()})
    for name, each in prepared.items():
        options = build.deployer.network_options(each.build.options, stages)
        prepared[name] = replace(each, build=_within(each.build, name, options))
        if options == each.build.options:
            continue
        try:
            build.target.plan(each.settled.lowered, each.program, options)
        except DoesNotFitError:  # the program was made for more, maybe with wide layers whole
            with within_what_is_left(name):
                program = quantize(prepared[name].build, each.settled, each.statistics)
            prepared[name] = replace(prepared[name], program=program)
    return prepared, _stages_of(build, {name: each.program for name, each in prepared.items()})


def _part(network: Build, name: str, program: Program) -> NetworkPart:
    return NetworkPart(name, program, network.options, picture_inputs(network.recipe, program))


def _within(network: Build, name: str, options: Any) -> Build:
    """The build of a network with the memory that is left to it."""
    return replace(network, options=options, recipe=with_options(network.recipe, name, network.key, options))


def _stages_of(build: DeploymentBuild, programs: Mapping[str, Any]) -> FaceMatchStages | None:
    classes = build.target.program_classes()
    recipes = {name: network.recipe for name, network in build.networks.items()}
    codes = {name: encode(program, classes) for name, program in programs.items()}
    return face_match_of(build.recipe, recipes, programs, codes)


def _joined(
    build: DeploymentBuild,
    prepared: Mapping[str, Prepared],
    plans: Mapping[str, MemoryPlan],
    stages: FaceMatchStages | None,
) -> Deployed:
    parts = tuple(_part(each.build, name, each.program) for name, each in prepared.items())
    with build.progress.stage("plan") as step:
        joint = build.deployer.join(parts, plans, stages, build.options)
        step.detail = ", ".join(f"{name} {use.in_words}" for name, use in joint.plan.regions.items())
    return Deployed(build.recipe.name, parts, stages, joint)


def _page(build: Build, folder: Path) -> None:
    from nnkit.stages import page

    page(build, folder)


def _joint_page(build: DeploymentBuild, folder: Path) -> None:
    from nnkit.report.html import write_page

    with build.progress.stage("page") as step:
        step.detail = f"{write_page(folder).stat().st_size:,} B"

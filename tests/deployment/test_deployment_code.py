"""Code of several networks and of the stages between them counts for L2, in `plan` as in `run`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nnkit.api.deploying import load_deployment_recipe
from nnkit.boards.tools import RV32_COMPILER, RV32_SIZE, missing_tools
from nnkit.deployed import Deployed
from nnkit.deployment import plan_deployment, run_deployment
from nnkit.errors import DoesNotFitError, RecipeError
from nnkit_gap8 import chip_fit
from nnkit_gap8 import options as gap8_options
from nnkit_gap8.deployment.code_size import deployed_code_bytes, steps_forms
from nnkit_gap8.deployment.runners import compiled_code_bytes
from tests.deployment.conftest import RECIPE, Project, build_of, write_networks

WITHOUT_FRAMES = RECIPE.split("    verify:")[0] + RECIPE[RECIPE.index("targets:") :]


def written(folder: Path, memory: str) -> Path:
    path = folder / "recipe.yaml"
    path.write_text(WITHOUT_FRAMES.replace("{l2: 64KiB}", memory))
    return path


@pytest.mark.skipif(missing_tools((RV32_COMPILER, RV32_SIZE)) is not None, reason="no rv32 compiler")
def test_code_is_never_more_than_its_bound(project: Project, deployed: Deployed) -> None:
    taken = compiled_code_bytes(project.outcome.folder / "artifact")
    bound = deployed_code_bytes(deployed, steps_forms(deployed, project.build.options))
    assert taken <= bound <= 1.5 * taken


def test_what_is_too_much_with_its_code_is_refused_and_the_remedy_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chip with room for all tensors, and for all code, but 400 bytes less than for both; no compiler is there."""
    monkeypatch.setattr(chip_fit, "missing_tools", lambda names: "none here")
    write_networks(tmp_path, wide=True)
    path = written(tmp_path, "{l2: 40000}")
    found = plan_deployment(build_of(path)).deployed
    peak = found.joint.plan.regions["l2"].peak_bytes
    code = deployed_code_bytes(found, ("calls", "calls"))
    monkeypatch.setattr(gap8_options, "L2_BYTES", peak + code - 400)
    with pytest.raises(DoesNotFitError, match="together 400 more than") as refused:
        plan_deployment(build_of(path))
    assert refused.value.exit_code == 4
    assert f"the plan takes {peak:,} bytes of L2, instructions and constants at most {code:,} bytes" in str(
        refused.value
    )
    with pytest.raises(DoesNotFitError, match=re.escape(refused.value.reason)):
        run_deployment(build_of(path), tmp_path / "out")
    memory = re.search(r"set `memory: (\{l2: \d+\})`", refused.value.remedy)
    assert memory is not None, refused.value.remedy
    followed = plan_deployment(build_of(written(tmp_path, memory[1]))).deployed
    options = load_deployment_recipe(path).targets["gap8"]
    most = deployed_code_bytes(followed, steps_forms(followed, options))
    assert followed.joint.plan.regions["l2"].peak_bytes + most <= peak + code - 400


def test_room_for_code_alone_is_no_option_of_a_deployment(tmp_path: Path) -> None:
    write_networks(tmp_path)
    with pytest.raises(RecipeError, match=r"`memory\.code` is for one network alone"):
        build_of(written(tmp_path, "{l2: 64KiB, code: auto}"))

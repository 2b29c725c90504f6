"""docs/nnie_restructuring.md: its recipes are valid, its figures of lengths and blocks are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

from nnkit.recipe.loading import load_recipe
from nnkit.recipe.sections import TargetOptionsBase
from nnkit.rewrite import known_names, resolve_steps
from nnkit.rewrite.broadcast import concat_plan
from nnkit.rewrite.edits.split_full_face_pca import output_sizes

PAGE = (Path(__file__).parents[2] / "docs" / "nnie_restructuring.md").read_text(encoding="utf-8")
HEAD = "nnkit: 1\nname: n\nmodel: {path: m.onnx}\ntargets: {nnie: {}}\n"


def test_every_recipe_on_the_page_is_valid(tmp_path: Path) -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    path = tmp_path / "recipe.yaml"
    for block in blocks:
        path.write_text(block if block.startswith("nnkit:") else HEAD + block, encoding="utf-8")
        recipe = load_recipe(path, target_models={"nnie": TargetOptionsBase}, known_rules=known_names())
        assert len(resolve_steps(recipe.restructure or ())) == len(recipe.restructure or ()) > 0


def test_every_rule_named_on_the_page_exists() -> None:
    table = PAGE[PAGE.index("## Keys of the published flow") : PAGE.index("## How far")]
    named = {name for row in table.splitlines() for name in re.findall(r"`([a-z_]+)`", row.rpartition(" | ")[2])}
    other = {"pca_combine", "write_net_calibration", "crop", "flip", "split_at_warp", "net_calibration"}
    assert named - other <= set(known_names())
    figures = set(re.findall(r"`([a-z_]+)`", PAGE[PAGE.index("| rule | networks") :]))
    assert figures <= set(known_names())


def test_the_lengths_on_the_page_are_built_as_it_says() -> None:
    assert [len(step) for step in concat_plan(512).steps] == [32, 16]
    assert [len(step) for step in concat_plan(1000).steps] == [25, 20, 2]
    plan = concat_plan(1021)
    assert sorted(plan.lengths[index] for index in plan.steps[-1]) == [29] + [32] * 31
    assert output_sizes([512, 512, 2048, 2048], 4096) == [3072, 2048]

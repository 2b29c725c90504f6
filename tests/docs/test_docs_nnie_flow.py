"""docs/nnie_flow.md: the rules, options and recipes that it names exist."""

from __future__ import annotations

import re
from pathlib import Path

from nnkit.recipe.loading import load_recipe
from nnkit.rewrite import known_names, resolve_steps
from nnkit_nnie.options import NnieOptions

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "nnie_flow.md").read_text(encoding="utf-8")


def cells(section: str) -> list[str]:
    """The right column of a section's table."""
    text = PAGE.partition(f"## {section}\n")[2].partition("\n## ")[0]
    return [row.rpartition(" | ")[2] for row in text.splitlines() if row.startswith("|")][2:]


def test_the_rules_and_options_of_the_steps_exist():
    named = {name for cell in cells("The steps") for name in re.findall(r"`([a-z_0-9]+)[:`]", cell)}
    rules = named & set(known_names())
    assert rules >= {"fold_batch_norm", "nonfinal_fc_to_conv", "split_full_face_pca", "half_face_pca"}
    assert named - rules <= set(NnieOptions.model_fields)


def test_the_recipes_and_scripts_exist():
    for path in re.findall(r"recipes/[a-z0-9_/.]+", PAGE):
        assert (ROOT / path).exists(), path


def test_every_key_of_the_published_configuration_has_a_row():
    text = PAGE.partition("## The keys\n")[2].partition("\n## ")[0]
    keys = (
        "deviceType convert_type cali_dir has_stn compid compile_device strip_var gray user_name inp_size comp_ids "
        "flips half_face inp_num save_checkpoints priority device_type comp_size merge_type force_update"
    )
    assert [key for key in keys.split() if key not in text] == []


def test_the_recipe_of_eight_inputs_is_valid(tmp_path: Path):
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    path = tmp_path / "recipe.yaml"
    path.write_text(block, encoding="utf-8")
    recipe = load_recipe(path, target_models={"nnie": NnieOptions}, known_rules=known_names())
    assert len(resolve_steps(recipe.restructure or ())) == 4
    # Left and right crop lie mirrored in the face of 224 x 112 pixels.
    for index in (0, 1):
        left, right = (recipe.model.inputs[f"comp{index}_{flip}"].preprocess for flip in (0, 1))
        assert right.crop.left == 224 - left.crop.left - left.crop.width
        assert (right.flip, left.flip) == (True, False)
        assert (right.crop.top, right.crop.width, right.resize) == (left.crop.top, left.crop.width, left.resize)

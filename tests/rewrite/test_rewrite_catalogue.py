"""The table of rules and the lookup by name."""

from __future__ import annotations

from pathlib import Path

import pytest

import nnkit.rewrite.edits
import nnkit.rewrite.rules
from nnkit.errors import RecipeError
from nnkit.recipe.restructure import OPTION_MODELS, NormFromConcat, RuleEntry
from nnkit.rewrite import DEFAULT_RULES, Edit, available_rules, known_names, resolve_rules, resolve_steps
from nnkit.rewrite.catalogue import EDITS, OPTIONAL_RULES, RULES, edit_with


def test_every_rule_file_is_in_the_table_and_in_one_order():
    files = {path.stem for path in Path(nnkit.rewrite.rules.__path__[0]).glob("*.py")} - {"__init__"}
    assert set(available_rules()) == files
    assert sorted((*DEFAULT_RULES, *OPTIONAL_RULES)) == sorted(files)


def test_every_rule_has_a_test_of_its_name():
    tests = {path.stem for path in (Path(__file__).parent / "rules").glob("test_*.py")}
    assert tests == {f"test_{name}" for name in available_rules()}


def test_every_edit_file_is_in_the_table():
    shared = {"__init__", "outputs", "projection"}
    files = {path.stem for path in Path(nnkit.rewrite.edits.__path__[0]).glob("*.py")} - shared
    assert sorted(EDITS) == sorted(files)


def test_every_edit_states_its_change_and_what_it_refuses():
    for name in EDITS:
        edit = edit_with(name, OPTION_MODELS[name].model_construct())
        assert edit.name == name
        assert all(part in edit.summary for part in ("Change:", "Options:", "Refused")), name


def test_options_and_table_agree():
    assert set(OPTION_MODELS) == set(RuleEntry.model_fields)
    assert set(OPTION_MODELS) <= set(known_names())
    assert set(EDITS) <= set(OPTION_MODELS)


def test_steps_resolve_with_their_options():
    steps = resolve_steps(["fold_scale", RuleEntry(norm_from_concat=NormFromConcat(a=1.0)), "replace_input"])
    assert [step.name for step in steps] == ["fold_scale", "norm_from_concat", "replace_input"]
    assert [isinstance(step, Edit) for step in steps] == [False, False, True]
    assert steps[0].exact
    assert not steps[1].exact


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (["fold_scale", "add_pca"], "line 1: 'add_pca' cannot be without file"),
        (["fold_scale", "fold_scale"], "line 1: rewrite 'fold_scale' is named twice"),
        (["add_pcb"], "line 0: there is no rewrite 'add_pcb'"),
    ],
)
def test_entries_that_cannot_be(entries, message):
    with pytest.raises(RecipeError) as caught:
        resolve_steps(entries, where=lambda index: f"line {index}")
    assert str(caught.value).startswith(message)
    assert caught.value.remedy


def test_every_rule_states_pattern_and_algebra():
    for name, rule in available_rules().items():
        assert rule.name == name
        assert "Pattern:" in rule.summary, name
        assert "Algebra:" in rule.summary or "Algebra," in rule.summary, name


def test_names_resolve_in_their_order():
    names = ["fc_to_conv", "fold_batch_norm"]
    assert [rule.name for rule in resolve_rules(names)] == names


def test_unknown_name_suggests_the_nearest():
    with pytest.raises(RecipeError) as error:
        resolve_rules(["fold_batchnorm"], where="recipe.yaml:9:15")
    assert str(error.value).startswith("recipe.yaml:9:15: there is no rewrite 'fold_batchnorm'")
    assert "did you mean 'fold_batch_norm' (" in str(error.value)


def test_of_a_hopeless_name_it_is_told_where_all_are_listed():
    with pytest.raises(RecipeError) as error:
        resolve_rules(["zzz"])
    assert error.value.remedy == f"`nnkit rules` lists all {len(RULES)} rules"


def test_a_name_twice_is_refused():
    with pytest.raises(RecipeError, match="named twice"):
        resolve_rules(["fc_to_conv", "fuse_pool", "fc_to_conv"])

"""The table of rules and the lookup by name."""

from __future__ import annotations

from pathlib import Path

import pytest

import nnkit.rewrite.rules
from nnkit.errors import RecipeError
from nnkit.rewrite import DEFAULT_RULES, available_rules, resolve_rules


def test_every_rule_file_is_in_the_table_and_in_the_default_order():
    files = {path.stem for path in Path(nnkit.rewrite.rules.__path__[0]).glob("*.py")} - {"__init__"}
    assert set(available_rules()) == files
    assert set(DEFAULT_RULES) == files
    assert len(DEFAULT_RULES) == len(files)


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
    assert "did you mean 'fold_batch_norm'?" in str(error.value)


def test_hopeless_name_lists_all():
    with pytest.raises(RecipeError) as error:
        resolve_rules(["zzz"])
    assert "did you mean" not in error.value.remedy
    assert all(name in error.value.remedy for name in DEFAULT_RULES)


def test_a_name_twice_is_refused():
    with pytest.raises(RecipeError, match="named twice"):
        resolve_rules(["fc_to_conv", "fuse_pool", "fc_to_conv"])

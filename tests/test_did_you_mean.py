"""Suggestions for misspelt words."""

from __future__ import annotations

import pytest

from nnkit.did_you_mean import close_to, did_you_mean, nearest, suggestion


@pytest.mark.parametrize(
    ("word", "known", "expected"),
    [
        ("nam", ["model", "name"], "name"),
        ("GAP9", ["tpu", "gap8"], "gap8"),
        ("hq", ["cpu", "hp"], "hp"),
        ("zzz", ["name"], None),
        ("name", [], None),
    ],
)
def test_nearest(word: str, known: list[str], expected: str | None):
    assert nearest(word, known) == expected
    assert did_you_mean(word, known) == (f"did you mean '{expected}'?" if expected else "")


def test_names_that_differ_in_letter_case_only_give_the_first():
    assert nearest("conv", ["Conv", "CONV"]) == "Conv"


def test_of_names_equally_alike_the_first_is_meant() -> None:
    assert nearest("accuracy", ["cosine", "top1_accuracy", "top5_accuracy"]) == "top1_accuracy"
    assert close_to("conv", ["conv1", "conv2", "conv3"], count=2, cutoff=0.5) == ["conv1", "conv2"]


def test_several_names_the_most_alike_first():
    assert close_to("conv_1", ["fc", "conv_11", "conv_2", "conv_1a"], count=3, cutoff=0.5)[0] in (
        "conv_11",
        "conv_1a",
    )
    assert len(close_to("conv", ["conv1", "conv2", "conv3"], count=2, cutoff=0.5)) == 2


def test_long_words_take_no_time():
    assert nearest("a" * 1_000_000, ["b" * 1_000_000]) is None


def test_suggestion_lists_what_there_is():
    assert suggestion("nam", ["nnkit", "name"], "known keys") == "did you mean 'name'? known keys: nnkit, name"
    assert suggestion("zzz", ["nnkit", "name"], "known keys") == "known keys: nnkit, name"
    assert suggestion("nam", [], "rules") == "there are no rules"


def test_of_a_long_list_only_what_is_alike_is_named():
    known = [f"rule_{number:02}" for number in range(40)] + ["fold_batch_norm", "fold_scale"]
    said = suggestion("fold_batchnorm", known, "rules", listed="`nnkit rules`")
    assert said == "did you mean 'fold_batch_norm' (or fold_scale)? `nnkit rules` lists all 42 rules"
    assert suggestion("zzz", known, "rules", listed="`nnkit rules`") == "`nnkit rules` lists all 42 rules"
    assert suggestion("zzz", known[:2], "rules", listed="`nnkit rules`") == "rules: rule_00, rule_01"

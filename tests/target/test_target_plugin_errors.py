"""What is wrong with a plugin's class is told when it is loaded, by name."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from nnkit.errors import ToolError
from nnkit.installation import TARGETS
from nnkit.recipe import TargetOptionsBase
from nnkit.target import Lowered, Target, load_target, loading


class Whole(Target[TargetOptionsBase, Lowered]):
    """Everything that a target has to have."""

    api_version = 3
    name = "whole"
    summary = "everything that is asked for"
    options = TargetOptionsBase
    lower = quantize = machine = plan = emit = lambda *arguments: None  # type: ignore[assignment]


class NothingElse(Target[TargetOptionsBase, Lowered]):
    api_version = 3
    options = TargetOptionsBase
    lower = machine = emit = lambda *arguments: None  # type: ignore[assignment]


class Misspelt(Whole):
    correction = ("bias_correction",)

    def runner(self, options: object) -> tuple[()]:
        return ()


class OldNames(Whole):
    """As version 2 of the interface had them: an attribute of another name is the plugin's own affair."""

    def compare_mapper_quant(self) -> None:
        pass

    def _corrections(self) -> None:
        pass


class Older(Whole):
    api_version = 2


def load(monkeypatch: pytest.MonkeyPatch, plugin: object) -> Any:
    monkeypatch.setattr(EntryPoint, "load", lambda self: plugin)
    entries = [EntryPoint("mine", "mine:Mine", TARGETS)]
    monkeypatch.setattr(loading, "target_plugins", lambda: tuple(entries))
    return load_target("mine")


def refused(monkeypatch: pytest.MonkeyPatch, plugin: object) -> str:
    with pytest.raises(ToolError) as caught:
        load(monkeypatch, plugin)
    assert caught.value.reason.startswith("the target plugin 'mine' (mine:Mine) ")
    assert caught.value.remedy
    return caught.value.reason.removeprefix("the target plugin 'mine' (mine:Mine) ")


def test_a_whole_class_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    target = load(monkeypatch, Whole)
    assert isinstance(target, Whole)
    assert (target.corrections, target.runners(None), target.installer()) == ((), (), None)
    assert isinstance(load(monkeypatch, OldNames), OldNames)


def test_what_is_lacking_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused(monkeypatch, NothingElse) == "lacks name, summary, plan, quantize"


def test_a_misspelt_name_gets_the_right_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused(monkeypatch, Misspelt) == (
        "has what no target is asked for: 'correction' (did you mean 'corrections'?), "
        "'runner' (did you mean 'runners'?)"
    )


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused(monkeypatch, Older) == "has API version 2, this nnkit has 3"


@pytest.mark.parametrize("plugin", [object(), object, Whole()])
def test_an_object_is_no_class_of_targets(monkeypatch: pytest.MonkeyPatch, plugin: object) -> None:
    assert refused(monkeypatch, plugin) == "is no class that derives from nnkit.target.Target"

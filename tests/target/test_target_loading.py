"""Finding targets: what is not installed, does not load or has another version breaks only what names it."""

from __future__ import annotations

import json
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from small_project import RECIPE, write_project

from nnkit.commands.check import check_commands
from nnkit.commands.doctor import doctor_command
from nnkit.commands.schema import schema_command
from nnkit.commands.targets import list_command, show_command
from nnkit.errors import ExitCode, RecipeError, ToolError, UsageError
from nnkit.installation import TARGETS
from nnkit.recipe import InvalidRecipeError
from nnkit.target import installed_targets, load_target, loading, option_models, working_targets

PLUGINS = {
    "broken_plugin.py": "raise ImportError('libnpu.so is missing')\n",
    "crashing_plugin.py": "TARGET = 1 / 0\n",
    "old_plugin.py": (
        "from nnkit.target import Target\n"
        "class TARGET(Target):\n    api_version = 0\n    name = 'old'\n    summary = 'old'\n"
    ),
    "empty_plugin.py": "TARGET = object()\n",
}


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """gap8 as it is, and four plugins that cannot be used."""
    for name, text in PLUGINS.items():
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    entries = [EntryPoint("gap8", "nnkit_gap8:TARGET", TARGETS)]
    entries += [EntryPoint(name.partition("_")[0], f"{name[:-3]}:TARGET", TARGETS) for name in PLUGINS]
    monkeypatch.setattr(loading, "target_plugins", lambda: tuple(entries))
    for name in PLUGINS:
        monkeypatch.delitem(sys.modules, name[:-3], raising=False)


@pytest.mark.usefixtures("plugins")
def test_a_good_target_is_not_harmed_by_bad_ones() -> None:
    assert load_target("gap8").name == "gap8"
    assert list(installed_targets()) == ["broken", "crashing", "empty", "gap8", "old"]
    models = option_models()
    assert "broken" in models
    assert sorted(models) == list(installed_targets())
    assert len(models) == 5
    assert models["gap8"].model_fields["precision"].default == "int16"


@pytest.mark.usefixtures("plugins")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("broken", "libnpu.so is missing"),
        ("crashing", "division by zero"),
        ("old", "API version 0, this nnkit has 3"),
        ("empty", "is no class that derives from nnkit.target.Target"),
    ],
)
def test_a_bad_target_says_what_is_wrong_when_it_is_named(name: str, said: str) -> None:
    with pytest.raises(ToolError) as caught:
        load_target(name)
    assert caught.value.exit_code == ExitCode.TOOL
    assert said in caught.value.reason
    assert repr(name) in caught.value.reason
    assert caught.value.remedy
    with pytest.raises(ToolError):
        option_models()[name]


@pytest.mark.usefixtures("plugins")
@pytest.mark.parametrize(("name", "near"), [("gap9", "gap8"), ("GAP8", "gap8"), ("tpu", None), ("brokn", "broken")])
def test_an_unknown_target_gets_the_nearest_name(name: str, near: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        load_target(name)
    assert caught.value.exit_code == ExitCode.USER
    assert (f"did you mean {near!r}?" in caught.value.reason) is (near is not None)
    assert "gap8" in caught.value.remedy


@pytest.mark.usefixtures("plugins")
def test_commands_that_show_all_targets_name_the_bad_ones(capsys: pytest.CaptureFixture[str]) -> None:
    targets, broken = working_targets()
    assert list(targets) == ["gap8"]
    assert sorted(broken) == ["broken", "crashing", "empty", "old"]

    list_command(json=True)
    listed: dict[str, str] = json.loads(capsys.readouterr().out)
    assert listed["gap8"] == targets["gap8"].summary
    assert listed["broken"].startswith("BROKEN: ")
    assert "libnpu.so" in listed["broken"]

    doctor_command(json=True)
    assert json.loads(capsys.readouterr().out)["broken_targets"] == broken

    schema_command()
    captured = capsys.readouterr()
    schema: dict[str, Any] = json.loads(captured.out)
    assert list(schema["properties"]["targets"]["properties"]) == ["gap8"]
    assert captured.err.count("left out: ") == 4

    show_command("gap8", json=True)
    assert json.loads(capsys.readouterr().out)["runners"] == ["host", "rv32"]


@pytest.mark.usefixtures("plugins")
def test_recipes_that_do_not_name_a_bad_target_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = write_project(tmp_path)
    check_commands([recipe], json=False)
    assert "valid" in capsys.readouterr().out
    recipe.write_text(RECIPE.replace("gap8: {}", "broken: {}"))
    with pytest.raises(ToolError, match="libnpu"):
        check_commands([recipe], json=False)
    recipe.write_text(RECIPE.replace("gap8: {}", "gap9: {}"))
    with pytest.raises(InvalidRecipeError) as caught:
        check_commands([recipe], json=False)
    assert isinstance(caught.value, RecipeError)
    assert "gap8" in str(caught.value)


def test_no_target_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "target_plugins", lambda: ())
    with pytest.raises(UsageError) as caught:
        load_target("gap8")
    assert caught.value.remedy == "installed targets: none"
    assert list(option_models()) == []

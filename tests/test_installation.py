"""What is said to add an extra works where it is said; what lies at the root of the repository is true."""

from __future__ import annotations

import re
import shlex
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import nnkit
from nnkit.cli import app
from nnkit.installation import COMMANDS, NAME, as_called, install_command

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_name_of_the_distribution_is_one() -> None:
    assert PROJECT["name"] == NAME != "nnkit"


def test_what_is_said_names_the_commands_as_they_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "fix: nnkit run net.onnx, or see `nnkit verify-wk`; nnkit runs, a bug in nnkit, out/nnkit run"
    monkeypatch.delenv("NNKIT_CALLED_AS", raising=False)
    assert as_called(said) == said
    monkeypatch.setenv("NNKIT_CALLED_AS", "../nnkit/dev")
    assert as_called(said) == (
        "fix: ../nnkit/dev run net.onnx, or see `../nnkit/dev verify-wk`; nnkit runs, a bug in nnkit, out/nnkit run"
    )
    assert set(COMMANDS) == set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    assert "NNKIT_CALLED_AS=$0 exec" in (ROOT / "dev").read_text(encoding="utf-8")


def test_of_a_checkout_the_command_names_the_checkout() -> None:
    words = shlex.split(install_command("solver"))
    assert words[:6] == [sys.executable, "-P", "-m", "pip", "install", "-e"]
    folder, _, extra = words[6].partition("[")
    assert (Path(folder) / "pyproject.toml").is_file()
    assert extra == "solver]"


@pytest.mark.parametrize("origin", [None, '{"url": "file:///tmp/x.whl", "archive_info": {}}'])
def test_of_an_installed_package_it_names_the_package(tmp_path: Path, origin: str | None) -> None:
    info = tmp_path / "nnkit_release-9.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nnkit-release\nVersion: 9.0\n")
    (info / "entry_points.txt").write_text("[console_scripts]\nnnkit = nnkit.cli:main\n")
    if origin is not None:
        (info / "direct_url.json").write_text(origin)
    script = "from nnkit.installation import install_command; print(install_command('dask'))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shlex.split(done.stdout) == [sys.executable, "-P", "-m", "pip", "install", "nnkit-release[dask]"]


def test_every_extra_that_is_asked_for_exists() -> None:
    named = {
        extra
        for path in (ROOT / "nnkit").rglob("*.py")
        for extra in re.findall(r"install_command\(['\"](\w+)['\"]\)", path.read_text(encoding="utf-8"))
    }
    assert {"dask", "solver", "tflite"} <= named <= set(PROJECT["optional-dependencies"])


def test_the_lock_holds_what_the_tests_need() -> None:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    locked = [Requirement(line) for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"==[\w.+!]+", str(each.specifier)) for each in locked)
    versions = {
        canonicalize_name(each.name): Version(str(each.specifier)[2:])
        for each in locked
        if each.marker is None or each.marker.evaluate()
    }
    extras = PROJECT["optional-dependencies"]
    for text in [
        *PROJECT["dependencies"],
        *(text for name in ("test", "solver", "docs", "dask", "serve") for text in extras[name]),
    ]:
        wanted = Requirement(text)
        assert versions[canonicalize_name(wanted.name)] in wanted.specifier, text


def test_changes_of_this_version_are_told() -> None:
    assert f"\n## {nnkit.__version__}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert PROJECT["version"] == nnkit.__version__


def test_the_licence_is_whole() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License\n                           Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    system = Path("/usr/share/common-licenses/Apache-2.0")
    if system.is_file():
        assert text == system.read_text(encoding="utf-8")


def test_the_container_copies_what_is_there_and_not_ignored() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = set()
    for line in (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            copied |= set(line.split()[1:-1])
    assert copied == kept
    assert all((ROOT / name).exists() for name in copied)


def test_the_hook_checks_recipes() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    files = [path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("recipes/*/*.yaml"))]
    taken = [name for name in files if re.search(hook["files"], name)]
    assert taken == files
    assert not re.search(hook["files"], "mkdocs.yml")
    command, *words = hook["entry"].split()
    done = run_nnkit(command, *words, "recipes/gap8_reid/recipe.yaml", "recipes/mcu_keyword/recipe.yaml")
    assert done.returncode == 0, done.stderr


def run_nnkit(command: str, *words: str) -> subprocess.CompletedProcess[str]:
    assert command == "nnkit"
    return subprocess.run(
        [sys.executable, "-m", "nnkit", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_the_action_checks_the_recipes_that_it_is_given(tmp_path: Path) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    script = action["runs"]["steps"][-1]["run"]
    command = tmp_path / "nnkit/bin/nnkit"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m nnkit "$@"\n')
    command.chmod(command.stat().st_mode | stat.S_IXUSR)

    def act(recipes: str) -> subprocess.CompletedProcess[str]:
        environment = {
            "RUNNER_TEMP": str(tmp_path),
            "RECIPES": recipes,
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(ROOT),
        }
        return subprocess.run(
            ["bash", "-eo", "pipefail", "-c", script],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    done = act("recipes/gap8_reid/recipe.yaml recipes/mcu_key*/recipe.yaml")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": valid") == 2
    assert act("recipes/none/*.yaml").returncode == 2
    (tmp_path / "recipe.yaml").write_text("nnkit: 1\n")
    wrong = act(f"recipes/gap8_reid/recipe.yaml {tmp_path}/recipe.yaml")
    assert wrong.returncode == 2
    assert "the key 'name' is missing" in wrong.stderr
    assert wrong.stdout.count(": valid") == 1


def test_the_site_names_pages_that_there_are() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = re.findall(r"([\w/]+\.md)\b", text[text.index("\nnav:") :])
    made = {"examples.md", "CHANGELOG.md"}  # by docs/site/hooks.py
    assert [name for name in named if name not in made and not (ROOT / "docs" / name).is_file()] == []
    assert "CHANGELOG.md" in (ROOT / "docs/site/hooks.py").read_text(encoding="utf-8")

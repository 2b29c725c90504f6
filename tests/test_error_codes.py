"""Error codes: every kind of error has one, each can be looked up, and the page has them all."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
from pathlib import Path

import pytest
from nnkit_command import run_nnkit
from small_project import RECIPE, write_project

from nnkit.error_codes import ERROR_CODES, page
from nnkit.errors import ExitCode, NnkitError

REPOSITORY = Path(__file__).resolve().parents[1]


def error_classes() -> dict[str, type[NnkitError]]:
    """Every subclass of NnkitError in the sources of nnkit and its targets, by `module.Class`."""
    found: dict[str, type[NnkitError]] = {}
    for root in (REPOSITORY, REPOSITORY / "targets"):
        for path in sorted((root / "nnkit" if root == REPOSITORY else root).rglob("*.py")):
            names = [
                node.name
                for node in ast.parse(path.read_text(encoding="utf-8")).body
                if isinstance(node, ast.ClassDef) and node.bases
            ]
            likely = [name for name in names if re.search(r"Error$|Refused$", name)]
            if likely:
                module = path.relative_to(root).with_suffix("").as_posix().replace("/", ".")
                loaded = importlib.import_module(module.removesuffix(".__init__"))
                for name in likely:
                    kind = getattr(loaded, name)
                    if isinstance(kind, type) and issubclass(kind, NnkitError):
                        found[f"{module}.{name}"] = kind
    return found


CLASSES = error_classes()


def test_none_was_passed_over() -> None:
    def all_of(kind: type) -> set[type]:
        return {kind, *(below for each in kind.__subclasses__() for below in all_of(each))}

    ours = {kind for kind in all_of(NnkitError) if kind.__module__.startswith("nnkit")}
    assert ours == set(CLASSES.values())
    assert len(CLASSES) >= 15


_SETTING = ("nnkit/failures.py", "nnkit/cli/__init__.py", "nnkit/terminal.py")
"""Where an error gets a code that is not of its class."""


@pytest.mark.parametrize("name", CLASSES)
def test_every_kind_of_error_has_a_code_with_its_exit_code(name: str) -> None:
    kind = CLASSES[name]
    assert kind.code in ERROR_CODES
    if name.startswith("nnkit."):
        assert "code" in vars(kind), "give it a code of its own"
    if kind.__name__ not in ("SeveralError", "BuildsFailedError"):  # which have that of what they hold
        assert kind.code[2] == str(int(kind.exit_code))[0]


def test_no_code_is_of_nobody_and_no_two_of_nnkit_s_share_one() -> None:
    own = [kind.code for name, kind in CLASSES.items() if name.startswith("nnkit.") and kind is not NnkitError]
    assert len(own) == len(set(own))
    written = "".join((REPOSITORY / file).read_text() for file in _SETTING)
    assert set(ERROR_CODES) == {*own, *re.findall(r"NK\d{3}", written)}
    codes = {str(int(code))[0] for code in ExitCode} - {"0"}
    assert {code[2] for code in ERROR_CODES} == codes


def test_the_page_is_generated() -> None:
    assert (REPOSITORY / "docs/error_codes.md").read_text(encoding="utf-8") == page()


def nnkit(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return run_nnkit(*arguments, cwd=cwd)


def test_what_an_error_names_can_be_explained(tmp_path: Path) -> None:
    write_project(tmp_path, RECIPE.replace("targets:", "target:"))
    done = nnkit("check", "recipe.yaml", cwd=tmp_path)
    (code,) = re.findall(r"more: nnkit explain (NK\d+)", done.stderr)
    assert code == "NK202"
    told = nnkit("explain", code).stdout
    assert ERROR_CODES[code].title in told
    assert all(step in told for step in ERROR_CODES[code].steps)
    assert nnkit("explain", "202").stdout == nnkit("explain", "nk202").stdout == told
    listed = nnkit("explain").stdout
    assert all(each in listed for each in ERROR_CODES)
    unknown = nnkit("explain", "NK210")
    assert (unknown.returncode, "did you mean" in unknown.stderr) == (2, True)
    assert "more: nnkit explain NK211" in nnkit("run", "--nothing").stderr

"""The command line: options, names, files in the place of others; and memory that is too small."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from mistakes import ended, told
from small_project import write_project

Follow = Callable[[str], tuple[str, ...]]


def least_l2(said: str) -> tuple[str, ...]:
    """The plan with as much memory as the message asks for."""
    needed = re.findall(r"give L2 at least ([0-9,]+) bytes", said)[0].replace(",", "")
    return ("plan", "recipe.yaml", "--set", f"targets.gap8.memory.l2={needed}")


def least_budget(said: str) -> tuple[str, ...]:
    needed = max(int(number.replace(",", "")) for number in re.findall(r"([0-9][0-9,]+) (?:bytes|B)", said))
    return ("plan", "recipe.yaml", "--set", f"targets.gap8.weight_budget={needed}")


def always(*arguments: str) -> Follow:
    return lambda said: arguments


SET = ("check", "recipe.yaml", "--set")
MISTAKES = {
    "command": (("chek", "recipe.yaml"), 2, "chek", always("check", "recipe.yaml")),
    "option": (("check", "recipe.yaml", "--jsn"), 2, "--json", always("check", "recipe.yaml", "--json")),
    "help of nothing": (("help", "chek"), 2, "did you mean 'check'", always("help", "check")),
    "no recipe": (("check", "recipes.yaml"), 2, "did you mean recipe.yaml?", always("check", "recipe.yaml")),
    "no recipe like it": (("check", "net.yml"), 2, "its folder has recipe.yaml", always("check", "recipe.yaml")),
    "init of a recipe": (
        ("init", "recipe.yaml"),
        2,
        "name the network, as in `nnkit init net.onnx`",
        always("init", "net.onnx", "--out", "other.yaml"),
    ),
    "init into a folder": (
        ("init", "net.onnx", "--out", "images"),
        2,
        "--out images/recipe.yaml",
        always("init", "net.onnx", "--out", "images/recipe.yaml"),
    ),
    "a folder": (("check", "."), 2, "name the file: ./recipe.yaml", always("check", "./recipe.yaml")),
    "target without its chip": (
        ("plan", "recipe.yaml", "--target", "nnie"),
        2,
        "nnie needs a chip: hi3559av100, hi3519av100, hi3516cv500",
        always("plan", "recipe.yaml", "--target", "nnie:hi3559av100"),
    ),
    "variant": (
        ("plan", "recipe.yaml", "--target", "gap8@small"),
        2,
        "its builds are: gap8",
        always("plan", "recipe.yaml", "--target", "gap8"),
    ),
    "set nothing": ((*SET, "verify.gates.cosine"), 2, "write KEY=VALUE", always(*SET, "verify.gates.cosine=0.9")),
    "set a misspelt key": (
        (*SET, "verify.gates.cosin=0.9"),
        2,
        "did you mean 'cosine'?",
        always(*SET, "verify.gates.cosine=0.9"),
    ),
    "code": (("explain", "NK20"), 2, "did you mean 'NK20", always("explain", "NK202")),
    "init over a recipe": (
        ("init", "net.onnx"),
        2,
        "name another with --out",
        always("init", "net.onnx", "--out", "other.yaml"),
    ),
    "target's name": (
        ("targets", "show", "gap9"),
        2,
        "did you mean 'gap8'?",
        always("targets", "show", "gap8"),
    ),
    "memory": (
        ("plan", "recipe.yaml", "--set", "targets.gap8.memory.l2=6KiB"),
        4,
        "give L2 at least",
        least_l2,
    ),
    "weight budget": (
        ("plan", "recipe.yaml", "--set", "targets.gap8.weight_budget=1KiB"),
        4,
        "weight",
        least_budget,
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_it_is_told_and_the_remedy_mends_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    write_project(tmp_path)
    arguments, expected, part, follow = MISTAKES[name]
    code, said = ended(arguments, monkeypatch, capsys)
    told(code, said)
    assert code == expected, said
    assert part in said, said
    code, said = ended(follow(said), monkeypatch, capsys)
    assert code == 0, said


@pytest.mark.parametrize("arguments", [(), ("--images", "images")])
def test_a_network_of_pytorch_is_told_how_to_export(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_project(tmp_path)
    (tmp_path / "net.pt").write_bytes(b"PK\x03\x04\xff")
    code, said = ended(("run", "net.pt", *arguments), monkeypatch, capsys)
    told(code, said)
    assert "torch.onnx.export(net.eval(), example_input, 'net.onnx')" in said  # which makes what the next test runs


def test_a_model_without_pictures_is_told_how_where_integers_need_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_project(tmp_path).unlink()
    code, said = ended(("run", "net.onnx", "--target", "onnx_qdq"), monkeypatch, capsys)
    told(code, said)
    assert "with a model instead of a recipe: --images DIR" in said
    shutil.move("images", "DIR")
    code, said = ended(
        ("run", "net.onnx", "--images", "DIR", "--target", "onnx_qdq", "--set", "verify.gates={}"),
        monkeypatch,
        capsys,
    )
    assert code == 0, said

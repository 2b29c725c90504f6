"""Every command that reads pictures says that it takes the first frame of one that has several."""

from __future__ import annotations

from pathlib import Path

from PIL import Image
from small_project import write_project

from tests.end_to_end.conftest import Command

SAID = "0.png has several frames or pages, of which the first is taken"


def test_check_run_simulate_and_diagnose_say_it(tmp_path: Path, nnkit: Command) -> None:
    write_project(tmp_path)
    path = tmp_path / "images/0.png"
    assert SAID not in nnkit("check", "recipe.yaml").out
    first, second = Image.open(path).copy(), Image.new("L", (40, 48), 7)
    first.save(path, save_all=True, append_images=[second])
    assert SAID in nnkit("check", "recipe.yaml").out
    done = nnkit("run", "recipe.yaml", "--no-qemu")
    assert f"doubt    {SAID}" in done.out, done
    build = "out/small/gap8"
    assert f"note: {SAID}" in nnkit("simulate", build, "--input", "images/0.png", "--output", "y.npy").err
    assert f"note: {SAID}" in nnkit("diagnose", build, "--images", "images/*.png").err

"""Pictures and arrays that cannot be what the network takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mistakes import Change, Mistake, check_mistake


def other_files(*, text: bool) -> Change:
    def write(folder: Path) -> None:
        (folder / "other").mkdir()
        (folder / "other/a.png").write_text("no picture" if text else "")

    return write


def arrays(folder: Path) -> None:
    for name, values in (
        ("", np.zeros((3, 3))),
        ("right/", np.zeros((1, 1, 40, 40), np.float32)),
        ("words/", np.array(["a"])),
    ):
        (folder / f"other/{name}").mkdir(parents=True, exist_ok=True)
        np.save(folder / f"other/{name}a.npy", values)


MISTAKES = (
    Mistake(
        "no resize",
        "color: gray, resize: {size: [40, 40]}",
        "color: gray",
        "0.png",
        "the picture is 48 x 40 pixels (height x width), the network takes 40 x 40 (and 2 more",
        "add resize: {size: [40, 40]}",
        "color: gray, resize: {size: [40, 40]}",
    ),
    Mistake(
        "crop outside",
        "color: gray,",
        "color: gray, crop: {left: 30, top: 0, width: 20, height: 20},",
        "0.png",
        "does not lie in the picture of 48 x 40",
        "use crop: center with a resize",
        "color: gray, crop: center,",
    ),
    Mistake(
        "text",
        "images/*.png",
        "other/*.png",
        "a.png",
        "not a picture of a known format",
        "give a PNG",
        "images/*.png",
        prepare=other_files(text=True),
    ),
    Mistake(
        "empty",
        "images/*.png",
        "other/*.png",
        "a.png",
        "the file is empty",
        "or remove it",
        "images/*.png",
        prepare=other_files(text=False),
    ),
    Mistake(
        "array of another shape",
        "images/*.png",
        "other/*.npy",
        "a.npy",
        "the array has shape [3, 3], the network takes [1, 1, 40, 40]",
        "network's input after preprocessing",
        "other/right/*.npy",
        prepare=arrays,
    ),
    Mistake(
        "array of words",
        "images/*.png",
        "other/words/*.npy",
        "a.npy",
        "not of real numbers",
        "save it as float32",
        "other/right/*.npy",
        prepare=arrays,
    ),
)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_it_is_told_and_the_remedy_mends_it(
    mistake: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check_mistake(mistake, tmp_path, monkeypatch, capsys)

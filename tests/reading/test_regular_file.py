"""Files that reports name: their names are text."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nnkit.errors import UserFileError
from nnkit.reading import read_regular_file
from nnkit.recipe.document import load_document


def _network(path: Path) -> object:
    return read_regular_file(path, what="the model")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
@pytest.mark.parametrize("read", [_network, load_document])
def test_a_name_that_is_no_utf_8_is_refused(read: Callable[[Path], object], tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"r\xff.yaml")
    path.write_text("nnkit: 1\n")
    with pytest.raises(UserFileError, match="is not UTF-8") as raised:
        read(path)
    assert raised.value.remedy == "rename the file, or the folder that is named so"
    read(path.rename(tmp_path / "recipe.yaml"))

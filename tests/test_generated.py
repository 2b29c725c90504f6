"""Generated text: templates that cannot be filled wrongly, and folders that cannot be written."""

from __future__ import annotations

from pathlib import Path

import pytest
from jinja2 import UndefinedError

from nnkit.errors import UserFileError
from nnkit.generated import template_environment, write_sources


def test_a_template_without_its_values_is_an_error() -> None:
    template = template_environment("nnkit_gap8", "templates").get_template("network.h.j2")
    with pytest.raises(UndefinedError):
        template.render()


def test_a_tag_alone_leaves_no_line_and_the_last_line_ends() -> None:
    text = "{% for n in names %}\n  {% if n %}\n{{ n }}\n  {% endif %}\n{% endfor %}\nend\n"
    environment = template_environment("nnkit_gap8", "templates")
    assert environment.from_string(text).render(names=["a", "", "b<"]) == "a\nb<\nend\n"


def test_sources_keep_their_line_ends(tmp_path: Path) -> None:
    paths = write_sources(tmp_path / "new" / "folder", {"a.c": "x\r\ny\n", "b.h": "ä\n"})
    assert [path.name for path in paths] == ["a.c", "b.h"]
    assert [path.read_bytes() for path in paths] == [b"x\r\ny\n", "ä\n".encode()]


def test_a_folder_that_cannot_be_made_is_the_users(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserFileError) as caught:
        write_sources(tmp_path / "file" / "folder", {"a.c": ""})
    assert caught.value.reason == "cannot be written: Not a directory"
    assert caught.value.where == str(tmp_path / "file" / "folder")
    assert "that you may write to" in caught.value.remedy

"""C files from templates: comments that stay comments, and lines as a person would leave them."""

from __future__ import annotations

import pytest

from nnkit.c.sources import c_environment, tidy_source, types_header


def test_a_source_has_no_trailing_blanks_and_no_doubled_empty_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = c_environment("nnkit", "c")
    template = environment.from_string("\n\nint a;  \n\n\n{{ b }}\t\n\n")
    monkeypatch.setattr(environment, "get_template", lambda name: template)
    assert tidy_source(environment, "any", {"b": "int b;"}) == "int a;\n\nint b;\n"


def test_a_name_does_not_end_its_comment() -> None:
    text = c_environment("nnkit", "c").from_string("/* {{ name | comment }} */").render(name="a */ b")
    assert text == "/* a * / b */"


def test_the_types_header_is_installed_with_the_package() -> None:
    assert "nnkit_i16" in types_header()

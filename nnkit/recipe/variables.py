"""`${VAR}`, `${VAR:-default}` and `$$` in the text values of a recipe.

The rules are the shell's, kept small: a default also replaces an empty variable, `$$` is a dollar sign, and
a variable that is not set and has no default is an error. Nothing is executed, and the result is text: where
the schema wants a number, `nnkit.recipe.validate` reads that text as if it stood there unquoted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_REFERENCE = re.compile(
    r"\$\$"
    r"|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^{}]*))?\}"
    r"|\$(?P<bad>\{[^}]*\}?|[A-Za-z_][A-Za-z0-9_]*)"
)


@dataclass(frozen=True)
class Expansion:
    """A text with its variables replaced.

    Attributes:
        text: the result.
        raw: the text as written.
        from_environment: whether the text begins with the value of an environment variable; as a path it is
            then relative to the working folder (where the user set it), not to the file.
    """

    text: str
    raw: str
    from_environment: bool


class VariableError(ValueError):
    """A reference that cannot be expanded: `reason` and `remedy` for the user."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


def expand(raw: str, environ: Mapping[str, str]) -> Expansion:
    """Replace every reference in `raw`.

    Raises:
        VariableError: a variable is not set and has no default, its value is not text, or the reference is
            malformed.
    """
    parts: list[str] = []
    end = 0
    from_environment = False
    for match in _REFERENCE.finditer(raw):
        parts.append(raw[end : match.start()])
        end = match.end()
        if match.group("bad") is not None:
            raise _malformed(match.group())
        if match.group("name") is None:
            parts.append("$")
            continue
        value, from_default = _lookup(match.group("name"), match.group("default"), environ)
        from_environment |= match.start() == 0 and not from_default
        parts.append(value)
    parts.append(raw[end:])
    return Expansion("".join(parts), raw, from_environment)


def escape(text: str) -> str:
    """Text that `expand` turns back into `text`."""
    return text.replace("$", "$$")


def _lookup(name: str, default: str | None, environ: Mapping[str, str]) -> tuple[str, bool]:
    """The value, and whether it is the default."""
    value = environ[name] if name in environ else None  # noqa: SIM401 - a mapping may supply what it does not hold
    if default is not None and not value:
        return default, True
    if value is None:
        raise VariableError(
            f"the environment variable {name} is not set",
            f"set it (`export {name}=...`), or give a default: ${{{name}:-value}}",
        )
    if any("\ud800" <= c <= "\udfff" or c == "\0" for c in value):
        raise VariableError(f"the environment variable {name} is not valid text", f"set {name} to UTF-8 text")
    return value, False


def _malformed(reference: str) -> VariableError:
    name = reference[1:]
    if not name.startswith("{"):
        return VariableError(
            f"'{reference}' is no variable reference",
            f"write ${{{name}}} for the variable, or $${name} for a dollar sign",
        )
    return VariableError(
        f"'{reference}' is no variable reference",
        "write ${NAME} or ${NAME:-default} (a name is letters, digits and _), or $${ for a dollar sign",
    )

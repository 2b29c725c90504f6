"""Numbers as the page writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import floor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markupsafe import Markup

_THIN = "\u2009"


def count(number: float | None, separator: str = _THIN) -> str:
    """`80 140 992` with thin spaces; a dash for what was not measured."""
    return "–" if number is None else f"{number:,.0f}".replace(",", separator)


def byte_size(size: float | None) -> str:
    """`272 KiB`: three digits and a binary unit."""
    if size is None:
        return "–"
    value = float(size)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            whole = unit == "B" or value >= 100  # halves go up, as they do in the page's charts
            return f"{floor(value + 0.5)}{_THIN}{unit}" if whole else f"{value:.3g}{_THIN}{unit}"
        value /= 1024
    return f"{value:.3g}{_THIN}GiB"


def compared_inputs(outputs: Mapping[str, Any]) -> str:
    """`16 drawn inputs`: how many were compared, and whether they are real ones. outputs: the report's distances."""
    number = outputs["inputs"]
    return f"{number} {'drawn ' if 'drawn' in outputs else ''}input{'s' * (number != 1)}"


def decibel(value: float | None) -> str:
    """`63.9 dB`; a dash where there is no error to measure."""
    return "–" if value is None else f"{value:.1f}{_THIN}dB"


def share(part: float | None, whole: float | None = 1.0) -> str:
    """`53.2 %`; small shares keep two digits."""
    if part is None or not whole:
        return "–"
    percent = 100.0 * part / whole
    return f"{percent:.1f}{_THIN}%" if percent >= 1 or percent == 0 else f"{percent:.2g}{_THIN}%"


def milliseconds(value: float | None, separator: str = _THIN) -> str:
    """`12.3`: three digits, all of them from a hundred on; `< 0.001` for less than a microsecond."""
    if value is None:
        return "–"
    if value >= 100:
        return count(value, separator)
    if value >= 0.001 or value == 0.0:
        return f"{value:.3g}"
    return "< 0.001"


def decimal(value: float | None, digits: int = 6) -> str:
    """A plain number with as many significant digits."""
    return "–" if value is None else f"{value:.{digits}g}"


def cosine_in_words(value: float | None) -> str:
    """With as many digits as it takes to tell it from 1."""
    if value is None or value == 1.0:
        return decimal(value)
    return next((text for d in range(4, 15) if float(text := f"{value:.{d}g}") != 1.0), "1")


def is_numeric(cell: object) -> bool:
    """Whether a cell of a table is a number, or one with its unit (`25.6 dB`): such stand right."""
    return (
        isinstance(cell, int | float)
        or re.fullmatch(r"-?[\d.,]+([ \u2009]?(%|dB|ms|B|[KM]iB))?|-", str(cell)) is not None
    )


def coded(text: str) -> Markup:
    """A sentence in which what stands between backticks is code."""
    from markupsafe import Markup, escape

    parts = str(text).split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    marked = (f"<code>{escape(part)}</code>" if index % 2 else escape(part) for index, part in enumerate(parts))
    return Markup("".join(marked))


def breakable(name: str) -> Markup:
    """A name of a layer or a file that may go on in the next line where a part of it ends."""
    from markupsafe import Markup, escape

    return Markup("<wbr>").join(escape(part) for part in re.findall(r"[^./_:]*[./_:]+|[^./_:]+", name))


def shortly(form: str) -> Markup:
    """A format for a narrow column: of affine integers the scale in three digits, below the type."""
    from markupsafe import Markup, escape

    kind, affine, rest = form.partition(" affine ")
    if not affine:
        return escape(form.removesuffix(" affine"))
    scale, comma, zero = rest.partition(", zero at ")
    if not comma:
        return escape(f"{kind} {rest}")
    return Markup('{} <small class="nowrap">× {}, zero {}</small>').format(kind, decimal(float(scale), 3), zero)


def ranked_otherwise(answer: Mapping[str, Any], rank: int) -> bool:
    """Whether the quantised network's value of this rank is not one that the float network could have there.

    answer: of a report's worst input. Values that are equal have no order among them, on either side.
    """
    index, value = answer["program"][rank]
    tied = [each for _, each in answer["program"]].count(value) > 1
    if tied and answer["program"][-1][1] == value:
        return False  # so may be values behind those that are listed: a saturated score, mostly
    places = [place for place, (_, each) in enumerate(answer["program"]) if each == value]
    there = {answer["float"][place][1] for place in places if place < len(answer["float"])}
    return index not in {each for each, size in answer["float"] if size in there}

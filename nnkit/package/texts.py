"""What texts of the artifact say: who wrote them, counts on pages for people, settings of a vendor's tool."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nnkit.package.contradiction import ContradictionError, hold_equal
from nnkit.package.documents import ARTIFACT_FOLDER, DETAILS, Description, folder_of, integers
from nnkit.package.evidence import REPORT, Evidence

_COUNT = re.compile(r"(?<![\w.,-])(?:\d{1,3}(?:,\d{3})+(?![\d.])|\d+(?= bytes\b))")
_SETTING = re.compile(r"^\[(\w+)\][ \t]*(.*)$", re.MULTILINE)
_WRITER = re.compile(r"(?:written|generated|made) by nnkit (\d[\w.+-]*\w)", re.IGNORECASE)


def check_writers(evidence: Evidence, texts: Mapping[str, str]) -> None:
    """Whether one version of nnkit wrote all."""
    for name, text in texts.items():
        for match in _WRITER.finditer(text):
            hold_equal(name, match[1], evidence.file(REPORT), evidence.report["nnkit"], at="the version of nnkit")


def check_counts(
    evidence: Evidence, texts: Mapping[str, str], documents: Sequence[Description], sizes: Mapping[str, int]
) -> None:
    """Whether counts that a line for people gives, in `details` or a page of the artifact, stand in data too."""
    data = [evidence.report, evidence.plan, sizes, *(document.content for document in documents)]
    counts = {abs(each) for each in integers(data)}
    lines = [(DETAILS, line) for line in evidence.report.get("details", {}).get("summary", ())]
    lines += [(name, line) for name, text in texts.items() if name.endswith(".md") for line in text.splitlines()]
    for file, line in lines:
        for digits in _COUNT.findall(line):
            if int(digits.replace(",", "")) not in counts:
                raise ContradictionError(file, f"it speaks of {digits}, a count that stands nowhere else")


def check_settings(name: str, text: str, documents: Sequence[Description], sizes: Mapping[str, int]) -> int:
    """Settings of a mapper: those that JSON at the artifact's top names too, and the files that they name."""
    count = 0
    for key, value in _SETTING.findall(text):
        value = value.strip()
        if value.startswith("./") and folder_of(name) + value[2:] not in sizes:
            raise ContradictionError(name, f"{key} names {value!r}, which is not there")
        for document in documents:
            for said in _of_settings(name, document, key):
                if isinstance(said, str) and value.lstrip("-").isdigit():
                    continue  # a number stands for the word
                hold_equal(name, value, document.file, str(said), at=key)
                count += 1
    return count


def _of_settings(name: str, document: Description, key: str) -> Iterator[Any]:
    """What a document has by the name of a setting: at its top, and where it names the file of the settings."""
    if document.folder != ARTIFACT_FOLDER:
        return
    networks = document.content.get("networks")
    rows = [row for row in networks if isinstance(row, Mapping)] if isinstance(networks, list) else []
    own = [row for row in rows if document.folder + str(row.get("cfg")) == name]
    inputs = [each for row in own for each in row.get("inputs", ()) if isinstance(each, Mapping)]
    for said in (document.content, *own, *inputs):
        if isinstance(said.get(key), str | int | float):
            yield said[key]

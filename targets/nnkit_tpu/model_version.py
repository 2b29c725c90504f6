"""What a model says of its own version, and which runtimes read it.

A cvimodel has major and minor version in its header; libcviruntime refuses a model whose version is above its own
("cvimodel(1.4) is not supported in runtime(1.2)"). A bmodel has a text in its FlatBuffers table (`bmodel.fbs` of the
compiler: `version`, the second field); libbmrt compares nothing.
"""

from __future__ import annotations

from nnkit.errors import ToolError

_BM_MAGIC, _CVI_MAGIC = b"\xee\xaa\x55\xff", b"CviModel"
_BM_HEADER_BYTES = 64
_VERSION_FIELD = 1


def model_version(model: bytes) -> str:
    """The version, as "1.4" of a cvimodel, "2.2+v1.30.2-20260831" of a bmodel.

    Raises ToolError for a file of neither kind.
    """
    if model[:8] == _CVI_MAGIC and len(model) > 13:
        return f"{model[12]}.{model[13]}"
    if model[:4] == _BM_MAGIC:
        return _text_field(model[_BM_HEADER_BYTES:], _VERSION_FIELD)
    raise ToolError(
        "the model's version cannot be read: it begins like neither a bmodel nor a cvimodel",
        where="the model",
        remedy="use the compiler version that `nnkit doctor --install tpu` brings",
    )


def oldest_runtime(version: str) -> str:
    """Which runtime reads a model of that version at least, in words."""
    form, _, release = version.partition("+")
    if not release:
        return f"a libcviruntime of model version {form}: an older one refuses the model"
    return f"libbmrt of the compiler's release {release}; older ones do not compare versions, and were not tried"


def _text_field(table: bytes, field: int) -> str:
    """A text of the root table, by the number of its field (FlatBuffers: offsets are relative, little endian)."""

    def number(at: int, size: int, *, signed: bool = False) -> int:
        return int.from_bytes(table[at : at + size], "little", signed=signed)

    root = number(0, 4)
    fields = root - number(root, 4, signed=True)
    slot = 4 + 2 * field
    offset = number(fields + slot, 2) if slot < number(fields, 2) else 0
    if not offset:
        return ""
    text = root + offset + number(root + offset, 4)
    return table[text + 4 : text + 4 + number(text, 4)].decode()

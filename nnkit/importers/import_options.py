"""What a recipe says of the network that it imports, whatever the file's format."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from nnkit.importers.name_tags import NO_GLOBS, TagGlobs
from nnkit.importers.tool_process import DEFAULT_LIMITS, ToolLimits


@dataclass(frozen=True)
class ImportOptions:
    """How a network is imported.

    inputs: shapes that the recipe declares, by input name, batch first; needed where the model leaves more than the
        batch open.
    simplify: fold constants; without it a model that computes shapes or from constants alone may be refused.
    tag_globs: the recipe's globs over the layers' names.
    limits: of the process that runs the ONNX tools.
    input_where: gives the position of a declared input in the recipe, for messages.
    any_batch: take inputs of several images, which the edit `replace_input` then makes inputs of one.
    channels_last: inputs that the file has as [1, H, W, C], to be taken as [1, C, H, W] (`channels_last.py`).
    """

    inputs: Mapping[str, Sequence[int]] = field(default_factory=dict)
    simplify: bool = True
    tag_globs: TagGlobs = NO_GLOBS
    limits: ToolLimits = DEFAULT_LIMITS
    input_where: Callable[[str], str] | None = None
    any_batch: bool = False
    channels_last: Collection[str] = ()


DEFAULT_OPTIONS = ImportOptions()

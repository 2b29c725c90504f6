"""The graph between stages and the tags on it."""

from nnkit.graph.model import InputSpec, Model, OutputSpec
from nnkit.graph.tags import NO_TAGS, LayerTags, ValueTags

__all__ = ["NO_TAGS", "InputSpec", "LayerTags", "Model", "OutputSpec", "ValueTags"]

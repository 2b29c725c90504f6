"""Entries of `restructure`: a rule's name, or one key, the name, with the rule's options below it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from nnkit.recipe.base import Fault, RecipeModel, fault
from nnkit.recipe.types import OneOrMany, RecipePath

RuleName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
Glob = Annotated[str, Field(min_length=1)]
LayerName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.:/-]{0,63}$")]
ValueName = Annotated[str, Field(min_length=1)]
_PCA_FILE = "An `.npz` file with `mean` [D] and `matrix` [D, K]."
_HP = "Run this layer in 16 bits where the others have 8."
_OUTPUT = "The output that holds the feature; `null`: the only one."


class NormFromConcat(RecipeModel):
    """Options of `norm_from_concat`."""

    reduce: Literal["sum", "mean"] = Field(
        default="sum", description="What the rebuilt layers take of the squares; the result is the same."
    )
    a: float | None = Field(
        default=None,
        ge=0.0,
        description="Constant beside sum(x^2), instead of the one in the network; `null`: as it is.",
        examples=[1e-10],
    )


class MeanNormalize(RecipeModel):
    """Options of `mean_normalize`."""

    output: ValueName | None = Field(default=None, description=_OUTPUT)
    a: float | None = Field(
        default=None, ge=0.0, description="Constant beside mean(x^2); `null`: the network's.", examples=[1.0]
    )


class ReplaceInput(RecipeModel):
    """Options of `replace_input`."""

    input: ValueName | None = Field(
        default=None, description="The input that stays; `null`: the only one, or the first that is concatenated."
    )


class AddPca(RecipeModel):
    """Options of `add_pca`."""

    file: RecipePath = Field(description=_PCA_FILE, examples=["pca.npz"])
    output: ValueName | None = Field(default=None, description=_OUTPUT)
    name: LayerName = Field(default="pca", description="Name of the new layer and output.")
    hp: bool = Field(default=False, description=_HP)


class HalfFacePca(AddPca):
    """Options of `half_face_pca`."""


class SplitFullFacePca(RecipeModel):
    """Options of `split_full_face_pca`."""

    file: RecipePath = Field(
        description="An `.npz` file with `mean` [2F] and `matrix` [2F, K] of the full face, left half first.",
        examples=["pca.npz"],
    )
    output: ValueName | None = Field(default=None, description=_OUTPUT)
    name: LayerName = Field(default="pca", description="Name of the new layer and output.")
    hp: bool = Field(default=False, description=_HP)
    channels: int = Field(default=4096, ge=1, description="Most channels of one output.")


class TailNorm(RecipeModel):
    """A normalisation: x / sqrt(sum(x^2) + a), or with the mean instead of the sum."""

    kind: Literal["norm"] = Field(description="What this layer is.")
    reduce: Literal["sum", "mean"] = Field(default="sum", description="Sum or mean of the squares.")
    a: float = Field(default=1.0, ge=0.0, description="Constant beside the sum or the mean.")
    name: LayerName = Field(default="norm", description="Name of the layer.")


class TailPca(RecipeModel):
    """A projection: (x - mean) matrix."""

    kind: Literal["pca"] = Field(description="What this layer is.")
    file: RecipePath = Field(description=_PCA_FILE, examples=["pca.npz"])
    name: LayerName = Field(default="pca", description="Name of the layer.")
    hp: bool = Field(default=False, description=_HP)


class TailSoftmax(RecipeModel):
    """Softmax over the values of the feature."""

    kind: Literal["softmax"] = Field(description="What this layer is.")
    name: LayerName = Field(default="softmax", description="Name of the layer.")


TailLayer: TypeAlias = Annotated[TailNorm | TailPca | TailSoftmax, Field(discriminator="kind")]


class ReplaceTail(RecipeModel):
    """Options of `replace_tail`."""

    at: ValueName = Field(description="The layer (or value) after which the network is cut.", examples=["features"])
    tail: tuple[TailLayer, ...] = Field(
        default=(), max_length=16, description="Layers to append there, in order.", examples=[[{"kind": "norm"}]]
    )


class StripVar(RecipeModel):
    """Options of `strip_var`."""

    layers: Annotated[tuple[Glob, ...], Field(min_length=1), OneOrMany()] = Field(
        description="Globs over the names of the layers that go.", examples=[["aux_*"]]
    )
    then: Literal["rewire", "cut"] = Field(
        default="rewire",
        description="`rewire`: what read a layer that goes reads that layer's own input; `cut`: what depends on it "
        "goes too, and what it read becomes an output.",
    )


class KeepOutput(RecipeModel):
    """Options of `keep_output`."""

    outputs: Annotated[tuple[ValueName, ...], Field(min_length=1), OneOrMany()] = Field(
        description="The outputs that stay, in this order.", examples=[["features"]]
    )


class DropOutput(RecipeModel):
    """Options of `drop_output`."""

    outputs: Annotated[tuple[ValueName, ...], Field(min_length=1), OneOrMany()] = Field(
        description="The outputs that go, with the layers that nothing else needs.", examples=[["landmarks"]]
    )


class Component(RecipeModel):
    """One sub-network of `merge_components`."""

    model: RecipePath | None = Field(
        default=None,
        description="Its file, `.onnx`, or `.prototxt` for Caffe; `null`: the recipe's own model.",
        examples=["eyes.onnx"],
    )
    weights: RecipePath | None = Field(
        default=None, description="Caffe only: the `.caffemodel`.", examples=["eyes.caffemodel"]
    )
    inputs: Annotated[tuple[LayerName, ...], Field(min_length=1, max_length=16), OneOrMany()] = Field(
        description="The new network's inputs that it is applied to, a copy each, with the same weights.",
        examples=[["face", "face_flipped"]],
    )

    @model_validator(mode="after")
    def _weights_are_of_a_caffe_network(self) -> Component:
        suffix = PurePath(self.model.text).suffix.lower() if self.model is not None else ""
        if self.weights is None and suffix == ".prototxt":
            raise fault("a Caffe network needs its weights beside the prototxt", "add `weights: net.caffemodel`")
        if self.weights is not None and self.model is None:
            raise fault("weights without a network", "add `model: net.prototxt`", ("weights",))
        if self.weights is not None and suffix == ".onnx":
            raise fault("an ONNX file holds its weights itself", "remove `weights`", ("weights",))
        return self


class MergeComponents(RecipeModel):
    """Options of `merge_components`."""

    components: Annotated[tuple[Component, ...], Field(min_length=1, max_length=16)] = Field(
        description="The sub-networks, in the order of their features.",
        examples=[[{"inputs": ["face", "face_flipped"]}]],
    )
    output: LayerName = Field(default="features", description="Name of the concatenated feature.")


class FourDimensionalOutputs(RecipeModel):
    """Options of `four_dimensional_outputs`."""

    outputs: Annotated[tuple[ValueName, ...], Field(min_length=1), OneOrMany()] | None = Field(
        default=None, description="The outputs that are changed; `null`: all that can be.", examples=[["features"]]
    )


class SplitStn(RecipeModel):
    """Options of `split_stn`."""

    part: Literal["stn", "net"] = Field(
        description="`stn`: from the image to the matrix; `net`: from the warped image to the result."
    )


class RuleEntry(RecipeModel):
    """One rule with its options: exactly one of these keys."""

    norm_from_concat: NormFromConcat | None = Field(
        default=None, description="Normalisation rebuilt from basic layers.", examples=[{"reduce": "mean"}]
    )
    replace_input: ReplaceInput | None = Field(
        default=None, description="One image instead of several.", examples=[{"input": "data"}]
    )
    merge_components: MergeComponents | None = Field(
        default=None, description="Several crops, or several sub-networks, in one network."
    )
    split_stn: SplitStn | None = Field(
        default=None, description="One of the two networks before and behind the warp.", examples=[{"part": "net"}]
    )
    strip_var: StripVar | None = Field(default=None, description="Layers taken out.")
    keep_output: KeepOutput | None = Field(default=None, description="These outputs alone.")
    drop_output: DropOutput | None = Field(default=None, description="All outputs but these.")
    replace_tail: ReplaceTail | None = Field(default=None, description="Another end of the network.")
    mean_normalize: MeanNormalize | None = Field(
        default=None, description="The output normalised by its root mean square."
    )
    add_pca: AddPca | None = Field(default=None, description="A projection behind the feature.")
    half_face_pca: HalfFacePca | None = Field(default=None, description="A projection of one half of the face.")
    split_full_face_pca: SplitFullFacePca | None = Field(
        default=None, description="The full face's projection, split for networks that see one half."
    )
    four_dimensional_outputs: FourDimensionalOutputs | None = Field(
        default=None, description="Vectors given out as feature maps of one pixel.", examples=[{"outputs": ["pca"]}]
    )

    @model_validator(mode="after")
    def _one_key(self) -> RuleEntry:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            reason = "an entry has one rule, but " + (" and ".join(given) or "none") + " stands here"
            raise fault(reason, "write each rule as an entry of its own: `- name: {options}`", tuple(given[1:2]))
        return self

    @property
    def name(self) -> str:
        """The rule's name."""
        return next(name for name in type(self).model_fields if getattr(self, name) is not None)

    @property
    def options(self) -> RecipeModel:
        """The rule's options."""
        written: RecipeModel = getattr(self, self.name)
        return written


RestructureEntry: TypeAlias = RuleName | RuleEntry
"""`fold_batch_norm`, or `{add_pca: {file: pca.npz}}`."""

DEFAULT_SET = "default"
"""The entry that stands for the target's default set of rewrites."""

OPTION_MODELS: dict[str, type[RecipeModel]] = {
    "norm_from_concat": NormFromConcat,
    "replace_input": ReplaceInput,
    "merge_components": MergeComponents,
    "split_stn": SplitStn,
    "strip_var": StripVar,
    "keep_output": KeepOutput,
    "drop_output": DropOutput,
    "replace_tail": ReplaceTail,
    "mean_normalize": MeanNormalize,
    "add_pca": AddPca,
    "half_face_pca": HalfFacePca,
    "split_full_face_pca": SplitFullFacePca,
    "four_dimensional_outputs": FourDimensionalOutputs,
}
"""The options of every rule that has any; a test holds it to the keys of `RuleEntry`."""


def entry_name(entry: RestructureEntry) -> str:
    """The rule that an entry names."""
    return entry if isinstance(entry, str) else entry.name


def required_options(name: str) -> list[str]:
    """The options without which the rule `name` cannot be written."""
    model = OPTION_MODELS.get(name)
    return [key for key, info in model.model_fields.items() if info.is_required()] if model else []


def entry_faults(entries: tuple[RestructureEntry, ...] | None) -> Iterator[Fault]:
    """What is wrong with a list of entries: a rule twice with the same options, or without those that it needs."""
    seen: list[RestructureEntry] = []
    for index, entry in enumerate(entries or ()):
        name = entry_name(entry)
        if entry in seen:
            yield Fault(("restructure", index), f"the rule '{name}' is listed twice", "keep one of the two")
        seen.append(entry)
        missing = required_options(name) if isinstance(entry, str) else []
        if missing:
            example = ", ".join(f"{key}: ..." for key in missing)
            reason = f"the rule '{name}' cannot be without {' and '.join(missing)}"
            yield Fault(("restructure", index), reason, f"write `{name}: {{{example}}}`")

"""Whether the figures of a build mean what they seem to: a float network that guesses, labels that count from one, an
input on another scale than the network was trained with, too few images to calibrate on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nnkit.errors import RecipeError
from nnkit.graph.first_layers import NORMALISES, first_layers, readers_by_value
from nnkit.inputs import image_inputs, images_to_add, input_ranges
from nnkit.preprocess import first_frame_note, list_images

if TYPE_CHECKING:
    from nnkit.calibrate import ValueRange
    from nnkit.graph import Model
    from nnkit.recipe import Recipe

_LEAST_IMAGES = 8  # of which it can be said that a network guesses
_POOR_PRECISION = 0.05
_RAW_RANGE = 64.0  # an input that reaches so far holds pixels as they are
_UNIT_RANGE = 8.0  # one that stays below is normalised
_ARRAY_SLACK = 0.01  # of what pixels reach: arrays may have been resized by another filter
_LEAST_REACH = 1 / 16  # arrays that stay below it are on another scale
_LARGE_WEIGHTS = 0.6
"""Length of the median filter of a first layer. Of networks trained on inputs of about 1 it is about 1; filters for
pixels in 0..255 are some hundred times shorter."""


def doubts(
    recipe: Recipe,
    imported: Model,
    score: Mapping[str, Any] | None,
    calibration_images: int,
    drawn: Mapping[str, str] | None = None,
    ranges: Mapping[str, ValueRange] | None = None,
) -> list[str]:
    """Sentences, each with what to look at; none where there is nothing to doubt.

    imported: the network as its file has it. score: of the task, as in the report. calibration_images: how many; 0: a
    table. drawn: how inputs were drawn, where there are no images. ranges: of values, as calibration saw them.
    """
    sentences = list(_of_the_task(score or {}))
    if drawn:
        how = ", ".join(f"{name} {words}" for name, words in drawn.items())
        sentences.append(
            f"the recipe names no images, so inputs were drawn ({how}): that the artifact computes what the float "
            "network does is shown, accuracy on real data and the ranges of real values are not; "
            f"{images_to_add(drawn)}"
        )
    if calibration_images == 1:
        sentences.append(
            "calibrated on one input, which says little of others: give some dozens, like the application's"
        )
    frames = first_frame_note(_pictures(recipe, imported))
    if frames is not None:
        sentences.append(frames)
    if set(recipe.model.inputs) <= {spec.name for spec in imported.inputs}:  # others are made by restructuring
        sentences += _of_the_scale(recipe, imported)
        sentences += _of_arrays(recipe, imported, ranges or {})
    return sentences


def _pictures(recipe: Recipe, imported: Model) -> Iterator[Path]:
    """All files that the recipe calibrates and verifies on."""
    for name in dict.fromkeys([*recipe.model.inputs, *(spec.name for spec in imported.inputs)]):
        spec = recipe.model.inputs.get(name)
        calibration = spec.calibration if spec is not None else None
        with suppress(RecipeError):  # of a build from a table, the pictures may be elsewhere
            if calibration is not None:
                yield from list_images(calibration.images, Path(), calibration.count)
            if recipe.verify.globs_for(name):
                yield from list_images(recipe.verify.globs_for(name), Path(), recipe.verify.count)


def _of_the_task(score: Mapping[str, Any]) -> Iterator[str]:
    facts, kind = score.get("facts", {}), score.get("kind")
    floats = {metric["name"]: metric["float"] for metric in score.get("metrics", ())}
    if kind == "classification" and facts.get("labelled_images", 0) >= _LEAST_IMAGES:
        yield from _of_classes(facts)
    precision = floats.get("mean_average_precision")
    if kind == "detection" and precision is not None and precision < _POOR_PRECISION:
        yield (
            f"the float network itself reaches a mean average precision of {precision:.3f}: look at the "
            "preprocessing (color, mean, scale), the classes and the corners of the boxes"
        )
    accuracy = floats.get("verification_accuracy")
    if kind == "verification" and accuracy is not None:
        same, different = facts["same_pairs"], facts["different_pairs"]
        guessed = _guessed_accuracy(same, different)
        if same + different >= _LEAST_IMAGES and accuracy <= guessed:
            yield (
                f"the float network itself tells pairs apart with an accuracy of {accuracy:.1%}, and guessing "
                f"reaches {guessed:.1%} on so many: look at the preprocessing, the pairs and `metric`"
            )


def _guessed_accuracy(same: float, different: float) -> float:
    """What the best threshold over scores without meaning stays below, 19 times in 20.

    The accuracy is the mean of both kinds' shares: a half, and half the distance of Kolmogorov and Smirnov between
    their scores, whose critical value is 1.358 sqrt((m + n) / (m n)) (Smirnov, 1948).
    """
    if not same or not different:
        return 0.5
    return min(1.0, 0.5 + 0.5 * 1.358 * sqrt((same + different) / (same * different)))


def _of_classes(facts: Mapping[str, float]) -> Iterator[str]:
    count, right, classes = int(facts["labelled_images"]), int(facts["float_right"]), int(facts["classes"])
    chance = 1.0 / max(classes, 1)
    guessed = count * chance + 2.0 * sqrt(count * chance * (1.0 - chance))
    for key, words in (("float_right_one_less", "one higher"), ("float_right_one_more", "one lower")):
        shifted = int(facts[key])
        if shifted > max(2 * right, guessed):
            yield (
                f"the labels seem {words} than the network's classes: of {count} images the float network is right "
                f"on {right}, and would be on {shifted} with labels {'less' if 'higher' in words else 'more'} by "
                "one; classes count from 0"
            )
            return
    if right <= guessed:
        yield (
            f"the float network itself is right on {right} of {count} images, which guessing among {classes} classes "
            "reaches too: look at the preprocessing (color, mean, scale) and at the labels"
        )


def _of_the_scale(recipe: Recipe, imported: Model) -> Iterator[str]:
    graph = imported.proto().graph
    by_value = readers_by_value(graph)
    for name, preprocess in image_inputs(recipe, imported).items():
        ends = [
            abs((pixel - mean) * scale)
            for pixel in (0.0, 255.0)
            for mean in preprocess.mean
            for scale in preprocess.scale
        ]
        reach = max(ends)
        readers = list(first_layers(by_value, name))
        if not readers:
            continue
        normalises = any(node.op_type in NORMALISES for node in readers)
        length = _filter_length(graph, readers)
        if reach >= _RAW_RANGE and not normalises and length is not None and length >= _LARGE_WEIGHTS:
            yield (
                f"input {name!r} takes pixels up to {reach:g}, and the first layer's weights look like those of a "
                "network trained on inputs of about 1: if so, add to its preprocess `scale: 1/255`, or mean and std "
                "as in training"
            )
        elif reach <= _UNIT_RANGE and any(_divides_much(graph, node) for node in readers):
            yield (
                f"input {name!r} is scaled to {reach:g} at most, and the network's first layer divides it once more: "
                "if it takes pixels, remove mean, scale and std from its preprocess"
            )


def _of_arrays(recipe: Recipe, imported: Model, ranges: Mapping[str, ValueRange]) -> Iterator[str]:
    """Arrays are taken as they are: they should hold what the preprocessing of their input makes of pixels."""
    for name, declared in input_ranges(recipe, imported).items():
        seen, calibration = ranges.get(name), recipe.model.inputs[name].calibration
        if seen is None or calibration is None:
            continue
        with suppress(RecipeError):  # of a build from a table, the files may be elsewhere
            files = list_images(calibration.images, Path(), calibration.count)
            if not any(path.suffix.lower() == ".npy" for path in files):
                continue
            low, high = seen.observed_low, seen.observed_high
            reach = max(abs(declared.low), abs(declared.high))
            slack = _ARRAY_SLACK * reach
            beyond = low < declared.low - slack or high > declared.high + slack
            if beyond or max(abs(low), abs(high)) < _LEAST_REACH * reach:
                yield (
                    f"input {name!r} was calibrated on arrays from {low:.4g} to {high:.4g}, and its preprocess makes "
                    f"{declared.low:.4g} to {declared.high:.4g} of pixels, so one of them is wrong: write the "
                    "preprocess by which the arrays were made, or remove it"
                )


def _filter_length(graph: Any, readers: list[Any]) -> float | None:
    """Euclidean length of the median filter of the convolution that reads the input; None: it is no plain one.

    Behind it stands no batch normalisation, which makes the length of a filter mean nothing.
    """
    from onnx.numpy_helper import to_array

    weights = {tensor.name: tensor for tensor in graph.initializer}
    (node, *others) = readers
    if others or node.op_type != "Conv" or node.input[1] not in weights:
        return None
    if any(node.output[0] in other.input and other.op_type == "BatchNormalization" for other in graph.node):
        return None
    kernel = to_array(weights[node.input[1]])
    return float(np.median(np.linalg.norm(kernel.reshape(len(kernel), -1), axis=1)))


def _divides_much(graph: Any, node: Any) -> bool:
    """Whether a first layer scales its input by less than a tenth, as one that normalises pixels does."""
    from onnx.numpy_helper import to_array

    weights = {tensor.name: tensor for tensor in graph.initializer}
    constant = next((to_array(weights[name]) for name in node.input if name in weights), None)
    following = [each for each in graph.node if node.output[0] in each.input]
    if node.op_type in ("Sub", "Add"):
        return any(_divides_much(graph, each) for each in following if each.op_type in ("Mul", "Div"))
    if constant is None or constant.size == 0 or node.op_type not in ("Mul", "Div"):
        return False
    factor = np.abs(constant) if node.op_type == "Mul" else 1.0 / np.maximum(np.abs(constant), 1e-30)
    return bool(np.max(factor) < 0.1)

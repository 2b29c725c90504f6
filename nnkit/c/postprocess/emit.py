"""Writes the C sources of the CPU-side stages, and the header with their sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from nnkit import __version__
from nnkit.c.sources import TYPES_HEADER, c_environment, types_header
from nnkit.c.text import braces, float32_literal, int32_literal, integer_type
from nnkit.errors import UsageError
from nnkit.generated import packaged_text, write_sources
from nnkit.postprocess import (
    ArgMax,
    DescriptorMatch,
    Detections,
    FaceCrop,
    L2Normalize,
    Numbers,
    PcaCombine,
    Softmax,
    Stage,
    TopK,
    Yolo,
)
from nnkit.postprocess.boxes import EXP2, Factor
from nnkit.postprocess.scores import TERMS
from nnkit.program import Fixed

_NAMES: dict[type[Stage], str] = {
    FaceCrop: "face_crop",
    DescriptorMatch: "match",
    PcaCombine: "pca_combine",
    Detections: "ssd or nms",
    Yolo: "yolo",
    Softmax: "softmax",
    ArgMax: "argmax",
    TopK: "topk",
    L2Normalize: "l2_normalize",
}
_SCORES = ("nnkit_scores.c", "nnkit_scores.h")
_SOURCES: dict[type, tuple[str, ...]] = {
    FaceCrop: ("nnkit_face_crop.c", "nnkit_face_crop.h"),
    DescriptorMatch: ("nnkit_match.c", "nnkit_match.h"),
    PcaCombine: ("nnkit_pca_combine.c", "nnkit_pca_combine.h"),
    Detections: ("nnkit_detect.c", "nnkit_detect.h", "nnkit_boxes.h"),
    Yolo: ("nnkit_yolo.c", "nnkit_yolo.h", "nnkit_boxes.h"),
    Softmax: _SCORES,
    ArgMax: _SCORES,
    TopK: _SCORES,
    L2Normalize: _SCORES,
}
_ROWS: dict[type[Stage], str] = {
    Softmax: "SOFTMAX",
    ArgMax: "ARGMAX",
    TopK: "TOPK",
    L2Normalize: "L2_NORMALIZE",
}
_CODES = ("center_size", "corner", "corner_size", "corners", "center")
_YOLO_CODES = ("v3", "v5", "x")
PRIORS_HEADER = "nnkit_detect_priors.h"


def postprocess_files(stages: Sequence[Stage]) -> dict[str, str]:
    """Sources and headers of `stages` by file name; empty without stages. The same stages give the same text.

    Raises UsageError where a stage appears twice: its sizes are macros, and there is one set of them.
    """
    if not stages:
        return {}
    by_type: dict[type[Stage], Stage] = {}
    for stage in stages:
        if type(stage) in by_type:
            raise UsageError(
                f"{_NAMES[type(stage)]} appears twice",
                where="postprocess",
                remedy="keep one of each kind",
            )
        by_type[type(stage)] = stage
    names = ["nnkit_postprocess.h", *dict.fromkeys(name for kind in by_type for name in _SOURCES[kind])]
    sources = {name: packaged_text("nnkit", "c", "postprocess", name) for name in names}
    sources[TYPES_HEADER] = types_header()
    sources["nnkit_postprocess_config.h"] = _config_header(by_type)
    detect = by_type.get(Detections)
    if isinstance(detect, Detections) and detect.priors:
        rows = "".join(f"    {braces(prior)},\n" for prior in detect.priors[:-1])
        sources[PRIORS_HEADER] = f"/* Each prior, 14 fraction bits. */\n{rows}    {braces(detect.priors[-1])}\n"
    return dict(sorted(sources.items()))


def emit_postprocess(stages: Sequence[Stage], out_dir: Path) -> tuple[Path, ...]:
    """Writes `postprocess_files(stages)` into `out_dir`, which is created; returns the paths, sorted.

    Raises UsageError for a repeated stage, UserFileError where the folder cannot be written.
    """
    return write_sources(out_dir, postprocess_files(stages))


def _config_header(by_type: dict[type[Stage], Stage]) -> str:
    environment = c_environment("nnkit", "c", "postprocess")
    environment.filters |= {
        "c_type": _storage_type,
        "c_numbers": _type_of,
        "c_double": _double,
        "c_int": int32_literal,
    }
    detect = by_type.get(Detections)
    template = environment.get_template("nnkit_postprocess_config.h.j2")
    values: dict[str, Any] = {
        "version": __version__,
        "crop": by_type.get(FaceCrop),
        "match": by_type.get(DescriptorMatch),
        "combine": by_type.get(PcaCombine),
        "rows": {word: by_type[kind] for kind, word in _ROWS.items() if kind in by_type},
        "terms": _listed(map(_double, TERMS)),
        "detect": detect,
        "exp2": braces(EXP2),
    }
    if isinstance(detect, Detections):
        values |= {
            "detect_code": _CODES.index(detect.code),
            "detect_factors": _factors(detect.factors, detect.location),
            "detect_above": _above(detect.confidence, detect.score_threshold),
        }
    yolo = by_type.get(Yolo)
    values["yolo"] = yolo
    if isinstance(yolo, Yolo):
        values |= _yolo_values(yolo)
    return template.render(values)


def _storage_type(number: Fixed) -> str:
    return integer_type(number.bits, number.signed)


def _type_of(numbers: Numbers) -> str:
    return "float" if numbers.is_float else integer_type(numbers.bits, numbers.signed)


def _factors(factors: Iterable[Factor], numbers: Numbers) -> str:
    if numbers.is_float:
        return _listed(_double(each.real) for each in factors)
    return _listed(braces((each.high, each.low, each.shift)) for each in factors)


def _yolo_values(yolo: Yolo) -> dict[str, Any]:
    """Tables of the maps: a map's rows follow those of the maps before it in its output, and so do its anchors."""
    maps, rows, anchors = [], [0] * len(yolo.outputs), 0
    for head in yolo.heads:
        maps.append((head.output, rows[head.output], head.height, head.width, len(head.anchors), anchors))
        rows[head.output] += head.rows
        anchors += len(head.anchors)
    pairs = zip(yolo.factors, yolo.outputs, strict=True)
    return {
        "yolo_code": _YOLO_CODES.index(yolo.code),
        "yolo_maps": _listed(map(braces, maps)),
        "yolo_anchors": _listed(braces(anchor) for head in yolo.heads for anchor in head.anchors),
        "yolo_zeros": braces(tuple(each.zero for each in yolo.outputs)),
        "yolo_factors": _listed(_factors(factors, numbers) for factors, numbers in pairs),
    }


def _listed(texts: Iterable[str]) -> str:
    return "{" + ", ".join(texts) + "}"


def _above(numbers: Numbers, threshold: float) -> str:
    return float32_literal(threshold) if numbers.is_float else int32_literal(numbers.above(threshold))


def _double(value: float) -> str:
    text = repr(float(value))
    return f"({text})" if value < 0 else text

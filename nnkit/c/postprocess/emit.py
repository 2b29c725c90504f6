"""Writes the C sources of the CPU-side stages, and the header with their sizes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nnkit import __version__
from nnkit.c.sources import TYPES_HEADER, c_environment, types_header
from nnkit.c.text import integer_type
from nnkit.errors import UsageError
from nnkit.generated import packaged_text, write_sources
from nnkit.postprocess import DescriptorMatch, FaceCrop, PcaCombine, Stage

_NAMES: dict[type[Stage], str] = {
    FaceCrop: "face_crop",
    DescriptorMatch: "descriptor_match",
    PcaCombine: "pca_combine",
}
_SOURCES: dict[type[Stage], tuple[str, ...]] = {
    FaceCrop: ("nnkit_face_crop.c", "nnkit_face_crop.h"),
    DescriptorMatch: ("nnkit_match.c", "nnkit_match.h"),
    PcaCombine: ("nnkit_pca_combine.c", "nnkit_pca_combine.h"),
}


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
    names = ["nnkit_postprocess.h", *(name for kind in by_type for name in _SOURCES[kind])]
    sources = {name: packaged_text("nnkit", "c", "postprocess", name) for name in names}
    sources[TYPES_HEADER] = types_header()
    sources["nnkit_postprocess_config.h"] = _config_header(by_type)
    return dict(sorted(sources.items()))


def emit_postprocess(stages: Sequence[Stage], out_dir: Path) -> tuple[Path, ...]:
    """Writes `postprocess_files(stages)` into `out_dir`, which is created; returns the paths, sorted.

    Raises UsageError for a repeated stage, UserFileError where the folder cannot be written.
    """
    return write_sources(out_dir, postprocess_files(stages))


def _config_header(by_type: dict[type[Stage], Stage]) -> str:
    environment = c_environment("nnkit", "c", "postprocess")
    environment.filters["c_type"] = lambda number: integer_type(number.bits, number.signed)
    template = environment.get_template("nnkit_postprocess_config.h.j2")
    return template.render(
        version=__version__,
        crop=by_type.get(FaceCrop),
        match=by_type.get(DescriptorMatch),
        combine=by_type.get(PcaCombine),
    )

"""Networks that are one file: which importer reads it, by its format."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from nnkit.file_digest import file_digest
from nnkit.importers.name_tags import NO_GLOBS, TagGlobs
from nnkit.importers.onnx_importer import ImportResult, import_onnx, onnx_digest
from nnkit.importers.tflite_importer import import_tflite


def import_model_file(
    path: Path,
    *,
    tflite: bool,
    inputs: Mapping[str, Sequence[int]] | None = None,
    simplify: bool = True,
    tag_globs: TagGlobs = NO_GLOBS,
    input_where: Callable[[str], str] | None = None,
    any_batch: bool = False,
    channels_last: Collection[str] = (),
) -> ImportResult:
    """Import a TFLite file, or an ONNX one; arguments and errors are those of `import_onnx` and `import_tflite`."""
    if tflite:
        return import_tflite(path, inputs=inputs, tag_globs=tag_globs, input_where=input_where)
    return import_onnx(
        path,
        inputs=inputs,
        simplify=simplify,
        tag_globs=tag_globs,
        input_where=input_where,
        any_batch=any_batch,
        channels_last=channels_last,
    )


def model_file_digest(path: Path, *, tflite: bool = False) -> str:
    """SHA-256 over a model's file and its external data: what a cache key needs to know of it.

    Raises:
        UserFileError, ModelError: as the import does for files that cannot be read.
    """
    return file_digest(path) if tflite else onnx_digest(path)

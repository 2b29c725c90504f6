"""Networks that are one file: which importer reads it, by its format."""

from __future__ import annotations

from pathlib import Path

from nnkit.file_digest import file_digest
from nnkit.importers.import_options import ImportOptions
from nnkit.importers.onnx_importer import ImportResult, import_onnx, onnx_digest


def import_model_file(path: Path, options: ImportOptions, *, tflite: bool) -> ImportResult:
    """Import a TFLite file, or an ONNX one; errors are those of `import_onnx` and `import_tflite`."""
    if not tflite:
        return import_onnx(path, options)
    from nnkit.importers.tflite_importer import import_tflite  # which loads onnx as a module

    return import_tflite(path, options)


def model_file_digest(path: Path, *, tflite: bool = False) -> str:
    """SHA-256 over a model's file and its external data: what a cache key needs to know of it.

    Raises:
        UserFileError, ModelError: as the import does for files that cannot be read.
    """
    return file_digest(path) if tflite else onnx_digest(path)

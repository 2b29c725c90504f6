"""Importers: model files of other tools become a Model."""

from nnkit.importers.any_file import import_model_file, model_file_digest
from nnkit.importers.caffe_importer import caffe_digest, caffe_model, import_caffe
from nnkit.importers.custom_layers import CustomDefinition
from nnkit.importers.name_tags import TagGlobError, TagGlobs
from nnkit.importers.onnx_importer import ImportResult, import_onnx
from nnkit.importers.tflite_importer import import_tflite
from nnkit.importers.tool_process import ToolLimits

__all__ = [
    "CustomDefinition",
    "ImportResult",
    "TagGlobError",
    "TagGlobs",
    "ToolLimits",
    "caffe_digest",
    "caffe_model",
    "import_caffe",
    "import_model_file",
    "import_onnx",
    "import_tflite",
    "model_file_digest",
]

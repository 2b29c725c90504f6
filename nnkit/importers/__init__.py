"""Importers: model files of other tools become a Model."""

from nnkit.importers.any_file import import_model_file, model_file_digest
from nnkit.importers.caffe_importer import caffe_digest, caffe_model, import_caffe
from nnkit.importers.custom_layers import CustomDefinition
from nnkit.importers.import_options import ImportOptions
from nnkit.importers.input_shapes import DeclaredInputs
from nnkit.importers.name_tags import TagGlobError, TagGlobs, lift_tags
from nnkit.importers.onnx_importer import (
    ImportResult,
    ReadNetwork,
    import_onnx,
    read_onnx_network,
    settle_inputs,
)
from nnkit.importers.tool_process import ToolLimits

__all__ = [
    "CustomDefinition",
    "DeclaredInputs",
    "ImportOptions",
    "ImportResult",
    "ReadNetwork",
    "TagGlobError",
    "TagGlobs",
    "ToolLimits",
    "caffe_digest",
    "caffe_model",
    "import_caffe",
    "import_model_file",
    "import_onnx",
    "lift_tags",
    "model_file_digest",
    "read_onnx_network",
    "settle_inputs",
]

"""The one door for files: whatever a user names is read here, bounded in size, never unpickled, and what a library
says of a damaged file becomes an error with place, reason and remedy.

Networks (`read_regular_file`) end in ModelError, everything else in UserFileError.
"""

from nnkit.reading.arrays import read_array, read_array_header, read_arrays
from nnkit.reading.json_file import read_json, read_json_object
from nnkit.reading.matching_files import matching
from nnkit.reading.onnx_file import message_of, read_onnx, refuse_other_files, whole_message_of
from nnkit.reading.plain_tree import check_plain_tree
from nnkit.reading.regular_file import (
    MAX_MODEL_BYTES,
    check_name,
    is_broken_link,
    open_regular,
    read_bytes,
    read_regular_file,
)
from nnkit.reading.text_file import read_csv, read_text
from nnkit.reading.yaml_file import read_yaml, read_yaml_node

__all__ = [
    "MAX_MODEL_BYTES",
    "check_name",
    "check_plain_tree",
    "is_broken_link",
    "matching",
    "message_of",
    "open_regular",
    "read_array",
    "read_array_header",
    "read_arrays",
    "read_bytes",
    "read_csv",
    "read_json",
    "read_json_object",
    "read_onnx",
    "read_regular_file",
    "read_text",
    "read_yaml",
    "read_yaml_node",
    "refuse_other_files",
    "whole_message_of",
]

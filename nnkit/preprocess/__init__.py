"""Preprocessing: from the user's files to the arrays that the network is fed with."""

from nnkit.preprocess.decode import decode_image, first_frame_note
from nnkit.preprocess.files import list_images
from nnkit.preprocess.load import as_network_input, check_header, load_array, load_image, load_input, preprocess_image
from nnkit.preprocess.settings import CropBox, Preprocess, Resize, check_shape

__all__ = [
    "CropBox",
    "Preprocess",
    "Resize",
    "as_network_input",
    "check_header",
    "check_shape",
    "decode_image",
    "first_frame_note",
    "list_images",
    "load_array",
    "load_image",
    "load_input",
    "preprocess_image",
]

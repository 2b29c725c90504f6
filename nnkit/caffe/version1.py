"""Layers of the form before 2014 (`layers { type: CONVOLUTION }`) in today's form."""

from __future__ import annotations

from typing import Any

from nnkit.errors import ModelError

_TYPES = {
    "ABSVAL": "AbsVal",
    "ACCURACY": "Accuracy",
    "ARGMAX": "ArgMax",
    "BNLL": "BNLL",
    "CONCAT": "Concat",
    "CONTRASTIVE_LOSS": "ContrastiveLoss",
    "CONVOLUTION": "Convolution",
    "DATA": "Data",
    "DECONVOLUTION": "Deconvolution",
    "DROPOUT": "Dropout",
    "DUMMY_DATA": "DummyData",
    "ELTWISE": "Eltwise",
    "EUCLIDEAN_LOSS": "EuclideanLoss",
    "EXP": "Exp",
    "FLATTEN": "Flatten",
    "HDF5_DATA": "HDF5Data",
    "HDF5_OUTPUT": "HDF5Output",
    "HINGE_LOSS": "HingeLoss",
    "IM2COL": "Im2col",
    "IMAGE_DATA": "ImageData",
    "INFOGAIN_LOSS": "InfogainLoss",
    "INNER_PRODUCT": "InnerProduct",
    "LRN": "LRN",
    "MEMORY_DATA": "MemoryData",
    "MULTINOMIAL_LOGISTIC_LOSS": "MultinomialLogisticLoss",
    "MVN": "MVN",
    "POOLING": "Pooling",
    "POWER": "Power",
    "RELU": "ReLU",
    "SIGMOID": "Sigmoid",
    "SIGMOID_CROSS_ENTROPY_LOSS": "SigmoidCrossEntropyLoss",
    "SILENCE": "Silence",
    "SLICE": "Slice",
    "SOFTMAX": "Softmax",
    "SOFTMAX_LOSS": "SoftmaxWithLoss",
    "SPLIT": "Split",
    "TANH": "TanH",
    "THRESHOLD": "Threshold",
    "WINDOW_DATA": "WindowData",
}
_SAME = ("name", "bottom", "top", "include", "exclude")


def upgraded(layer: Any, place: str) -> Any:
    """A V1LayerParameter as a LayerParameter; learning rates and the like are left behind.

    Raises:
        ModelError: the layer has no type, or is of the form before this one.
    """
    from nnkit.caffe.schema import messages

    if layer.HasField("layer"):
        raise ModelError(
            "the network is in Caffe's first format (a `layer` inside `layers`)",
            where=place,
            remedy="run Caffe's upgrade_net_proto_text and upgrade_net_proto_binary on it",
        )
    kind = _TYPES.get(messages.V1LayerParameter.LayerType.Name(layer.type))
    if kind is None:
        raise ModelError(
            f"layer '{layer.name}' has no type", where=place, remedy="write `type: CONVOLUTION` or another"
        )
    result = messages.LayerParameter(type=kind)
    for descriptor, value in layer.ListFields():
        if descriptor.name in _SAME or descriptor.name.endswith("_param"):
            if isinstance(value, str):
                setattr(result, descriptor.name, value)
            elif hasattr(value, "extend"):
                getattr(result, descriptor.name).extend(value)
            else:
                getattr(result, descriptor.name).CopyFrom(value)
    return result

"""The committed code of the schema is what protoc makes of the .proto, and reads what plain protobuf reads."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import descriptor_pb2

from benchmarks.caffe_corpus import caffemodel
from nnkit.caffe.schema import messages

PROTO = Path(messages.__file__).with_name("caffe.proto")


def test_loaded_messages_are_those_of_the_proto_file(tmp_path: Path) -> None:
    protoc = shutil.which("protoc")
    if protoc is None:
        pytest.skip("no protoc on this machine")
    root = PROTO.parents[2]
    found = tmp_path / "caffe.desc"
    command = [protoc, f"--proto_path={root}", f"--descriptor_set_out={found}", str(PROTO.relative_to(root))]
    subprocess.run(command, cwd=root, check=True)
    expected = descriptor_pb2.FileDescriptorSet.FromString(found.read_bytes()).file[0]
    loaded = descriptor_pb2.FileDescriptorProto()
    messages.DESCRIPTOR.CopyToProto(loaded)
    for message in (*expected.message_type, *loaded.message_type):
        for field in message.field:
            field.ClearField("json_name")
            if field.type == field.TYPE_FLOAT and field.default_value:  # written with more or fewer decimals
                field.default_value = str(np.float32(field.default_value))
    assert loaded == expected


def test_field_numbers_are_the_public_ones() -> None:
    """Numbers that files in circulation use, from the public schemas."""
    public = {
        "name": 1, "type": 2, "bottom": 3, "top": 4, "blobs": 7, "include": 8, "exclude": 9, "phase": 10,
        "convolution_param": 106, "eltwise_param": 110, "inner_product_param": 117, "lrn_param": 118,
        "pooling_param": 121, "power_param": 122, "relu_param": 123, "prelu_param": 131, "reshape_param": 133,
        "flatten_param": 135, "reduction_param": 136, "batch_norm_param": 139, "scale_param": 142,
        "input_param": 143, "crop_param": 144, "permute_param": 202, "prior_box_param": 203,
        "detection_output_param": 204, "norm_param": 206, "psroi_pooling_param": 10002,
        "roi_pooling_param": 8266711,
    }  # fmt: skip
    fields = messages.LayerParameter.DESCRIPTOR.fields_by_name
    assert {name: fields[name].number for name in public} == public


def test_weights_as_bytes_are_the_packed_floats_of_the_plain_schema() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3) / 7
    data = caffemodel({"conv": [array]})
    plain = messages.NetParameter.FromString(data).layer[0].blobs[0]
    raw = messages.WeightFile.FromString(data).layer[0].blobs[0]
    assert np.array_equal(np.frombuffer(b"".join(raw.data), "<f4"), np.array(plain.data, np.float32))
    assert list(raw.shape.dim) == [2, 3]

"""The messages of `caffe.proto`, from the code that protoc made of it.

    protoc --python_out=. nnkit/caffe/caffe.proto

The committed code is that of protoc 3.21, whose form every protobuf from 4.25 on loads.
"""

from __future__ import annotations

from typing import Any

from nnkit.caffe import caffe_pb2

messages: Any = caffe_pb2

"""Files that are no model, or a damaged one, are refused with an error for people and nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from nnkit.errors import ExitCode, ModelError, NnkitError, UserFileError
from nnkit.importers import ImportOptions, import_onnx
from nnkit.importers.model_file import read_model_file
from nnkit.reading import MAX_MODEL_BYTES
from nnkit.reading.onnx_file import walk


@pytest.fixture
def small_model(make_model: Any) -> bytes:
    rng = np.random.default_rng(3)
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["a"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["r"], name="act"),
        helper.make_node("GlobalAveragePool", ["r"], ["g"], name="pool"),
        helper.make_node("Flatten", ["g"], ["f"], name="flat"),
        helper.make_node("Gemm", ["f", "v"], ["y"], name="fc_hp"),
    ]
    constants = {
        "w": rng.standard_normal((2, 4, 3, 3)).astype(np.float32),
        "b": np.zeros(2, np.float32),
        "v": rng.standard_normal((2, 3)).astype(np.float32),
    }
    return bytes(make_model(nodes, constants, opset=13).SerializeToString())


def test_a_missing_file_is_the_users(tmp_path: Path) -> None:
    with pytest.raises(UserFileError, match="does not exist") as caught:
        import_onnx(tmp_path / "no.onnx")
    assert caught.value.exit_code == ExitCode.USER


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"nnkit: 1\nname: a recipe\n" * 40, "is text"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer"),
        (bytes(range(256)) * 8, "not an ONNX model"),
        (b"\x08\x08\x12\x03abc", "not an ONNX model"),  # valid protobuf without a graph
    ],
)
def test_what_is_no_model(save: Callable[..., Path], content: bytes, reason: str) -> None:
    path = save(content)
    with pytest.raises(ModelError, match=reason) as caught:
        import_onnx(path)
    assert caught.value.exit_code == ExitCode.MODEL
    assert caught.value.where == str(path)
    assert caught.value.remedy


def test_folders_pipes_and_unreadable_paths(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is a folder"):
        import_onnx(tmp_path)
    with pytest.raises(UserFileError):
        import_onnx(tmp_path / "no\0name")
    if hasattr(os, "mkfifo"):
        pipe = tmp_path / "pipe.onnx"
        os.mkfifo(pipe)
        with pytest.raises(ModelError, match="not a regular file"):  # reading it would wait for ever
            import_onnx(pipe)


def test_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "huge.onnx"
    with path.open("wb") as file:
        file.truncate(MAX_MODEL_BYTES)  # sparse: takes no room
    with pytest.raises(ModelError, match=r"2,147,483,648 bytes"):
        import_onnx(path)


def test_text_that_is_not_utf8_is_refused(small_model: bytes, save: Callable[..., Path]) -> None:
    assert small_model.count(b"pool") == 1
    with pytest.raises(ModelError, match="not an ONNX model"):
        read_model_file(save(small_model.replace(b"pool", b"\xff\xfe\xfd\xfc")))


def test_every_truncation_is_refused(small_model: bytes, save: Callable[..., Path]) -> None:
    proto = onnx.load_model_from_string(small_model)
    whole = import_onnx(save(small_model)).model
    assert whole.outputs[0].shape == (1, 3)
    # A cut between two fields leaves valid protobuf; here after ir_version, and before opset_import.
    graph_end = small_model.rindex(proto.opset_import[0].SerializeToString()) - 2
    lengths = {1, 2, graph_end, graph_end + 1, len(small_model) - 1}
    lengths |= set(np.random.default_rng(5).integers(1, len(small_model), 150).tolist())
    for length in sorted(lengths):
        with pytest.raises(ModelError):
            import_onnx(save(small_model[:length]))


@pytest.mark.parametrize("seed", range(30))
def test_flipped_bytes_give_a_model_or_a_clean_error(
    small_model: bytes, save: Callable[..., Path], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    data = bytearray(small_model)
    skeleton = [i for i in range(len(data)) if not _inside_weights(small_model, i)]
    for position in rng.choice(skeleton, size=1 + seed % 3):
        data[position] = int(rng.integers(0, 256))
    _model_or_clean_error(save(bytes(data)))


def _model_or_clean_error(path: Path) -> None:
    try:
        model = import_onnx(path).model
    except NnkitError as refusal:
        error: NnkitError = refusal
    else:
        onnx.checker.check_model(model.proto(), full_check=True)
        return
    assert error.exit_code in (ExitCode.MODEL, ExitCode.USER)
    assert error.where == str(path)
    assert error.reason
    assert "Traceback" not in str(error)


def _mutate(message: Any, rng: np.random.Generator) -> None:
    """Change one field of one message inside `message` to something absurd, leaving valid protobuf."""
    messages = [inner for inner in walk(message) if inner.ListFields()]
    chosen = messages[int(rng.integers(len(messages)))]
    fields = chosen.ListFields()
    field, value = fields[int(rng.integers(len(fields)))]
    numbers = {field.TYPE_INT64: 1 << 62, field.TYPE_INT32: -1, field.TYPE_ENUM: 2, field.TYPE_FLOAT: float("nan")}
    if hasattr(value, "append"):
        index = int(rng.integers(len(value)))
        copied = value[index]
        if rng.integers(2):
            del value[index]
        elif hasattr(copied, "ListFields"):
            value.add().CopyFrom(copied)
        else:
            value[index] = numbers.get(field.type, "y" if isinstance(copied, str) else copied)
    elif field.type in numbers:
        setattr(chosen, field.name, numbers[field.type])
    elif field.type == field.TYPE_STRING:
        setattr(chosen, field.name, ["", "x", "y", "Loop", "NonZero"][int(rng.integers(5))])
    else:
        chosen.ClearField(field.name)


@pytest.mark.parametrize("seed", range(30))
def test_absurd_fields_give_a_model_or_a_clean_error(
    small_model: bytes, save: Callable[..., Path], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    proto = onnx.load_model_from_string(small_model)
    for _ in range(1 + seed % 3):
        _mutate(proto, rng)
    _model_or_clean_error(save(proto))


def _inside_weights(data: bytes, position: int) -> bool:
    """Flips in weights only give other weights, which says nothing about reading."""
    for tensor in onnx.load_model_from_string(data).graph.initializer:
        start = data.index(tensor.raw_data)
        if start <= position < start + len(tensor.raw_data):
            return True
    return False


def _with_tensor(make_model: Any, **fields: Any) -> onnx.ModelProto:
    model: onnx.ModelProto = make_model([helper.make_node("Add", ["x", "k"], ["y"], name="plus")])
    tensor = model.graph.initializer.add(name="k", data_type=TensorProto.FLOAT)
    for name, value in fields.items():
        if isinstance(value, list):
            getattr(tensor, name).extend(value)
        else:
            setattr(tensor, name, value)
    return model


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"dims": [1 << 40, 1 << 40], "raw_data": b"\0" * 4}, "declares 4,835,703,278,458,516,698,824,704 bytes"),
        ({"dims": [1 << 33], "raw_data": b"\0" * 4}, "the limit is 2,147,483,648"),
        ({"dims": [8], "raw_data": b"\0" * 31}, r"tensor 'k' declares 32 bytes \(8\) and holds 31"),
        ({"dims": [8], "float_data": [1.0] * 9}, r"declares 32 bytes \(8\) and holds 36"),
        ({"dims": [-4], "raw_data": b"\0" * 4}, "negative dimension"),
        ({"dims": [4], "data_type": 77, "raw_data": b"\0" * 4}, "element type"),
        ({"dims": [1], "data_type": TensorProto.STRING, "string_data": [b"a"]}, "not a number"),
    ],
)
def test_tensors_that_do_not_hold_what_they_declare(
    make_model: Any, save: Callable[..., Path], fields: Any, reason: str
) -> None:
    with pytest.raises(ModelError, match=reason):
        import_onnx(save(_with_tensor(make_model, **fields)))


def test_a_shape_that_explodes_when_folded_is_refused(make_model: Any, save: Callable[..., Path]) -> None:
    nodes = [
        helper.make_node("ConstantOfShape", ["big"], ["k"], name="boom"),
        helper.make_node("Add", ["x", "k"], ["y"], name="plus"),
    ]
    model = make_model(nodes, {"big": np.array([1 << 22, 4, 8, 8], np.int64)})
    for simplify in (True, False):
        with pytest.raises(ModelError, match=r"boom|memory"):
            import_onnx(save(model), ImportOptions(simplify=simplify))


def test_sparse_weights_are_refused(make_model: Any, save: Callable[..., Path]) -> None:
    model = make_model([helper.make_node("Add", ["x", "k"], ["y"])])
    values = helper.make_tensor("k", TensorProto.FLOAT, [1], [2.0])
    indices = helper.make_tensor("i", TensorProto.INT64, [1], [0])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [8]))
    with pytest.raises(ModelError, match="tensor 'k' is sparse"):
        import_onnx(save(model))

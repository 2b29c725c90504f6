"""The codec: exact round trips, equal bytes for equal values, and refusal of everything else."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nnkit.calibrate.stats import CalibrationStats, ValueRange
from nnkit.errors import InternalError
from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec, ValueTags
from nnkit.memory.plan import Buffer, MemoryPlan, RegionUse, Step, TensorPlace, WeightChunk
from nnkit.program import Concat, Conv2d, Fixed, FusedPool, Leaky, OutputStage, Program, Tensor, Window
from nnkit.rewrite.log import DeclinedSite, RewriteEntry, RewriteLog
from nnkit.serialize import Codec, DamagedValueError, decode, encode
from nnkit.stages.types import Imported, Restructured
from nnkit.visible import visible

RESULTS = (Imported, Restructured)


def _program() -> Program:
    rng = np.random.default_rng(0)
    fixed = Fixed(16, 10)
    stage = OutputStage(12, -32768, 32767, Leaky(np.array([100, -3], np.int16), 7))
    conv = Conv2d(
        name="conv",
        inputs=("x",),
        output="a",
        weight=rng.integers(-99, 99, (2, 1, 3, 3)).astype(np.int16),
        weight_bits=16,
        weight_frac=12,
        bias=np.array([1, -(2**31)], np.int32),
        bias_frac=10,
        bias_shift=3,
        window=Window(3, 3, pad_top=1),
        stage=stage,
        pool=FusedPool("max", Window(2, 2, 2, 2)),
        proof="proven",
        bits_lost=0.1,
        origins=("conv", "bn"),
    )
    tensors = {name: Tensor(name, (2, 4, 4), fixed, -32768, 32767) for name in ("a", "y")}
    tensors["x"] = Tensor("x", (1, 8, 8), Fixed(8, -2, signed=False), 0, 255)
    return Program("net", tensors, (conv, Concat(name="c", inputs=("a",), output="y", shifts=(0,))), ("x",), ("y",))


def _model() -> Model:
    tags = LayerTags({"y": ValueTags(hp=True, origins=("fc_hp",))})
    return Model(b"\x08\x00bytes", tags, (InputSpec("x", (1, 1, 8, 8)),), (OutputSpec("y", (1, 3)),), 13)


def _plan() -> MemoryPlan:
    return MemoryPlan(
        planner="offsets",
        regions={"l2": RegionUse(524288, 4096, 4000, False)},
        buffers={"b": Buffer("b", "activation", "l2", 0, 64, 0, 2)},
        places={"x": TensorPlace("x", "b", 4, 60)},
        steps=(Step(0, "conv", 0, ("x",), ("a",)), Step(1, "c", None, ("a",), ("y",))),
        chunks=(WeightChunk("conv", 0, 1, 0, 48, "b", 0, 0),),
        l3_weight_bytes=48,
        notes=("one",),
    )


def test_a_program_comes_back_with_its_digest() -> None:
    program = _program()
    back = decode(encode(program))
    assert isinstance(back, Program)
    assert back.digest == program.digest
    conv = back.ops[0]
    assert isinstance(conv, Conv2d)
    assert conv.weight.dtype == np.int16
    assert not conv.weight.flags.writeable
    assert back.tensors["x"].format == Fixed(8, -2, signed=False)
    assert isinstance(back.tensors, type(program.tensors))


def test_what_else_stages_hand_on_comes_back() -> None:
    model = _model()
    back = decode(encode(model))
    assert (back.digest, back.onnx_bytes, back.opset) == (model.digest, model.onnx_bytes, 13)
    assert back.tags == model.tags

    plan = _plan()
    assert decode(encode(plan)) == plan

    stats = CalibrationStats({"x": ValueRange(-0.1, math.inf, -1e-310, 0.1 + 0.2)}, "max", 3, "d")
    stats_back = decode(encode(stats))
    assert dict(stats_back.ranges) == dict(stats.ranges)
    assert (stats_back.method, stats_back.images, stats_back.graph_digest) == ("max", 3, "d")

    log = RewriteLog((RewriteEntry("r", True, ("a + b",), (DeclinedSite("c", "padding"),), 1e-7),))
    assert decode(encode(log)) == log
    restructured = decode(encode(Restructured(model, log, model), RESULTS), RESULTS)
    assert restructured.log == log
    assert restructured.model.digest == model.digest
    assert decode(encode(Imported(model, ("a note",)), RESULTS), RESULTS).notes == ("a note",)


def test_what_an_error_says_is_stored_as_a_text() -> None:
    said = str(InternalError("no room", where="conv"))
    assert decode(encode((said, "plain"))) == ("conv: no room", "plain")
    assert encode(said) == encode("conv: no room")


def test_same_value_same_bytes() -> None:
    assert encode(_program()) == encode(_program())
    strided = np.arange(24, dtype=np.int32).reshape(4, 6)[:, ::2]
    assert encode(strided) == encode(strided.copy())
    assert encode(np.asfortranarray(strided)) == encode(strided)


_PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | hnp.arrays(
        st.sampled_from([np.int8, np.uint16, np.int64, np.float32, np.float64, np.bool_]),
        hnp.array_shapes(min_dims=0, min_side=0),
    ),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers() | st.tuples(st.text()), inner)
        | st.frozensets(st.integers() | st.text())
    ),
    max_leaves=12,
)


def _same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, float):
        return one.hex() == other.hex() or (math.isnan(one) and math.isnan(other))
    return bool(one == other)


@given(_PLAIN)
@settings(max_examples=150)
def test_plain_data_comes_back_exactly(value: Any) -> None:
    data = Codec([]).encode(value)
    back = Codec([]).decode(data)
    assert _same(value, back)
    assert Codec([]).encode(back) == data


@pytest.mark.parametrize("scalar", [np.float32(0.1), np.int16(-3), np.float64("nan"), np.bool_(True)])
def test_numpy_scalars_keep_their_type(scalar: Any) -> None:
    back = Codec([]).decode(Codec([]).encode(scalar))
    assert type(back) is type(scalar)
    assert back.tobytes() == scalar.tobytes()


@dataclass(frozen=True)
class Point:
    x: int
    double: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "double", 2 * self.x)


def test_only_registered_classes_go_in_and_out() -> None:
    codec = Codec([Point])
    assert codec.decode(codec.encode([Point(3)])) == [Point(3)]
    for other in (object(), Path("x"), np.array([object()]), 1j):
        with pytest.raises(InternalError, match="cannot be stored"):
            codec.encode({"a": other})
    with pytest.raises(DamagedValueError, match="unknown class 'Point'"):
        Codec([]).decode(codec.encode(Point(1)))


def test_a_class_that_changed_is_refused() -> None:
    @dataclass(frozen=True)
    class Point:
        x: int
        z: int = 0

    with pytest.raises(DamagedValueError, match="other fields"):
        Codec([Point]).decode(Codec([globals()["Point"]]).encode(globals()["Point"](1)))
    with pytest.raises(InternalError, match="its name is taken"):
        Codec([Point, globals()["Point"]])


def test_damaged_bytes_raise_nothing_else() -> None:
    data = encode(_program())
    for length in range(0, len(data), 7):
        with pytest.raises(DamagedValueError):
            decode(data[:length])
    with pytest.raises(DamagedValueError):
        decode(data + b"\0")
    for name in ("__reduce__", "Path", "eval"):
        with pytest.raises(DamagedValueError):
            decode(data.replace(b'"Conv2d"', f'"{name:6}"'.encode()[:8]))
    rng = np.random.default_rng(0)
    for _ in range(200):
        changed = bytearray(data)
        changed[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
        try:
            decode(bytes(changed))  # a flip inside an array's bytes is still a value: checksums are the cache's
        except DamagedValueError:
            continue


def test_text_that_was_made_visible_is_stored_as_text() -> None:
    """The reason of an error, which a log of rewrites keeps."""
    reason = visible("a name with \x1b")
    assert decode(encode({"reason": reason})) == {"reason": "a name with \\x1b"}

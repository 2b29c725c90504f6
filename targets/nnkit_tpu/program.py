"""The ops that the TPU executes after fusion, in float and, once quantised, with their integer parameters.

One graph serves three readers: the Top MLIR emitter (`top_mlir.py`), the planner of layer groups (`layer_group/`) and
the prediction of the compiler's INT8 arithmetic. Conventions:

* Shapes include the batch axis, as in Top MLIR; axes in an op's fields count it too.
* Weights are float32 as the compiler reads them: convolutions and deconvolutions [O, I/group, kh, kw], a matrix
  product's right side [K, N].
* The compiler, the calibration table and the qtable know an op by the name of its output value.
* `relu` with `relu_limit` is the activation fused into an op; it comes after everything else.
* `integer` is None in a float graph. In a quantised one it holds what the compiler's lowered MLIR states too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit.program import Arrays, OpBase, Tensor, Tensors, Watch, Window
from nnkit.program.formats import Affine, Format
from nnkit_tpu.integer_parameters import IntegerOperands, IntegerTable, IntegerWeights, Requant, ScaledSum

FloatArray: TypeAlias = NDArray[np.float32]
Mode: TypeAlias = Literal["INT8", "F16", "BF16", "F32"]
_WEIGHT_BYTES: Mapping[Mode, int] = {"INT8": 1, "F16": 2, "BF16": 2, "F32": 4}
BinaryFunction: TypeAlias = Literal["add", "sub", "mul", "div", "min", "max"]
ActivationFunction: TypeAlias = Literal[
    "relu",
    "leaky_relu",
    "prelu",
    "sigmoid",
    "silu",
    "hard_sigmoid",
    "hard_swish",
    "tanh",
    "clip",
    "exp",
    "abs",
    "sqrt",
    "gelu",
    "gelu_by_tanh",
    "erf",
    "elu",
    "softplus",
    "mish",
    "log",
]
ReduceFunction: TypeAlias = Literal["mean", "sum", "max", "min", "l2"]


@dataclass(frozen=True)
class TpuTensor:
    """A value: shape with the batch axis, and its format once formats are chosen (None in a float graph)."""

    name: str
    shape: tuple[int, ...]
    format: Format | None = None

    @property
    def nchw(self) -> tuple[int, int, int, int]:
        """The dimensions by which local memory is laid out: missing ones are 1, trailing ones fall into W."""
        padded = (*self.shape, 1, 1, 1, 1)[: max(4, len(self.shape))]
        return padded[0], padded[1], padded[2], int(np.prod(padded[3:]))


@dataclass(frozen=True)
class Cast:
    """How an op turns an input from the format it is stored in (`source`) into the one it computes in (`target`).

    via: integers that come in between: an INT8 network's pixels that an op in floating point reads.
    precision, rounding: of real values that become integers; `cut_off`, of float32 that becomes BF16; see `casts.py`.
    """

    source: Format
    target: Format
    via: Affine | None = None
    precision: Mode = "F32"
    rounding: Literal["half_away", "half_even", "cut_off"] = "half_away"


@dataclass(frozen=True, eq=False, kw_only=True)
class TpuOp(OpBase):
    """What all ops of the TPU share. mode: the precision the op runs in (the graph's, or of its `_hp` tag).

    casts: by input; empty in a float graph. magnitude: the largest calibrated magnitude of the output (0: unknown).
    range_of: the value whose calibrated range the output has, for ops of our own. within: the range itself (0: none).
    beyond_f16: it is asked for in float32, as values that it reads or gives exceed what F16 holds.
    """

    kind: ClassVar[str] = "tpu"
    mode: Mode = "F32"
    casts: tuple[Cast, ...] = ()
    magnitude: float = 0.0
    range_of: str = ""
    within: float = 0.0
    beyond_f16: bool = False

    def compute(self, inputs: Arrays, tensors: Tensors, watch: Watch | None = None) -> NDArray[Any]:
        """Stored values in, stored values out, without the batch axis; see `nnkit_tpu.execute`."""
        from nnkit_tpu.execute import execute

        return execute(self, inputs, tensors[self.output])

    def read_formats(self, tensors: Tensors) -> tuple[Format, ...]:
        """Those that its casts end in."""
        return tuple(cast.target for cast in self.casts) or super().read_formats(tensors)


@dataclass(frozen=True, eq=False, kw_only=True)
class TpuRectified(TpuOp):
    """An op that a ReLU may be fused into, with or without an upper limit (`relu_limit`, below 0: none)."""

    relu: bool = False
    relu_limit: float = -1.0

    @property
    def upper_limit(self) -> float:
        """What the fused ReLU clamps to; infinity where nothing does."""
        return self.relu_limit if self.relu and self.relu_limit > 0 else np.inf


@dataclass(frozen=True, eq=False, kw_only=True)
class TpuConv(TpuRectified):
    """2-D convolution: grouped, depthwise, dilated. weight [O, I/group, kh, kw], bias [O], padding reads 0.

    weight_scale: [O], where the weights are integers of the network's own times these; empty: the compiler chooses.
    joined: groups of the network in one (`joined_groups.py`).
    """

    kind: ClassVar[str] = "conv"
    weight: FloatArray
    bias: FloatArray | None
    window: Window
    group: int = 1
    integer: IntegerWeights | None = None
    weight_scale: tuple[float, ...] = ()
    joined: int = 1

    def weight_bytes(self) -> int:
        """Weights in the op's precision, biases of 32 bits."""
        return _weight_bytes(self)

    def multiply_accumulates(self, tensors: Mapping[str, Tensor]) -> int:
        """One per weight of the network and output position (of one image)."""
        return int(self.weight.size) // self.joined * int(np.prod(tensors[self.output].shape[-2:]))

    def is_of_channels(self) -> bool:
        """Whether it is depthwise, 1x1 and moves nothing: a scale, and a bias, for every channel."""
        alone = self.weight.shape[1:] == (1, 1, 1) and self.group == len(self.weight)
        return alone and not self.window.has_padding and self.window.stride_h == self.window.stride_w == 1


@dataclass(frozen=True, eq=False, kw_only=True)
class TpuDeconv(TpuRectified):
    """2-D transposed convolution. weight [O, I/group, kh, kw]; `window` as in ONNX: pads are cut off the result."""

    kind: ClassVar[str] = "deconv"
    weight: FloatArray
    bias: FloatArray | None
    window: Window
    output_padding: tuple[int, int] = (0, 0)
    group: int = 1
    integer: IntegerWeights | None = None

    def weight_bytes(self) -> int:
        """Weights in the op's precision, biases of 32 bits."""
        return _weight_bytes(self)

    def multiply_accumulates(self, tensors: Mapping[str, Tensor]) -> int:
        """One per weight and input position (of one image)."""
        return int(self.weight.size) * int(np.prod(tensors[self.inputs[0]].shape[-2:]))


@dataclass(frozen=True, eq=False, kw_only=True)
class TpuMatMul(TpuRectified):
    """[..., M, K] x [K, N] + bias [N], the right side constant (`weight`), or x [..., K, N], a second input."""

    kind: ClassVar[str] = "matmul"
    weight: FloatArray | None
    bias: FloatArray | None = None
    integer: IntegerWeights | Requant | None = None

    def weight_bytes(self) -> int:
        """Weights in the op's precision, biases of 32 bits."""
        return _weight_bytes(self)

    def multiply_accumulates(self, tensors: Mapping[str, Tensor]) -> int:
        """One per element of the left side and column of the right (of one image)."""
        left, out = tensors[self.inputs[0]].shape, tensors[self.output].shape
        return int(np.prod(left)) * int(out[-1])


def _weight_bytes(op: TpuConv | TpuDeconv | TpuMatMul) -> int:
    weight = 0 if op.weight is None else op.weight.size * _WEIGHT_BYTES[op.mode]
    return weight + (0 if op.bias is None else 4 * op.bias.size)


@dataclass(frozen=True, eq=False, kw_only=True)
class TpuPool(TpuRectified):
    """Maximum (padding is absent) or average pool; a global one has the whole image as its window."""

    kind: ClassVar[str] = "pool"
    function: Literal["max", "average"]
    window: Window
    count_include_pad: bool = False
    ceil_mode: bool = False
    integer: Requant | ScaledSum | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class TpuBinary(TpuRectified):
    """Elementwise with numpy's broadcast: two inputs, or one and a `constant` (the left side if `constant_first`)."""

    kind: ClassVar[str] = "binary"
    function: BinaryFunction
    constant: FloatArray | None = None
    constant_first: bool = False
    integer: IntegerOperands | Requant | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class TpuScale(TpuRectified):
    """x * scale + bias per channel: [C] each."""

    kind: ClassVar[str] = "scale"
    scale: FloatArray
    bias: FloatArray
    integer: IntegerWeights | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class TpuConcat(TpuOp):
    """Concatenation along `axis`."""

    kind: ClassVar[str] = "concat"
    axis: int
    integer: IntegerOperands | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class TpuSlice(TpuOp):
    """x[offset:end:step] on every axis; positive steps, ends within the input."""

    kind: ClassVar[str] = "slice"
    offsets: tuple[int, ...]
    steps: tuple[int, ...]
    ends: tuple[int, ...]
    integer: Requant | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class TpuReshape(TpuOp):
    """The same values in the output's shape."""

    kind: ClassVar[str] = "reshape"


@dataclass(frozen=True, eq=False, kw_only=True)
class TpuPermute(TpuOp):
    """Transposition: axis i of the output is axis `order[i]` of the input."""

    kind: ClassVar[str] = "permute"
    order: tuple[int, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class TpuActivation(TpuOp):
    """An elementwise function that stands alone.

    slopes: of `leaky_relu` [1], of `prelu` [C]. bounds: of `clip` (low, high) and of `relu` (0, limit).
    alpha, beta: of `hard_sigmoid`, clamp(alpha * x + beta, 0, 1); alpha: of `elu`, alpha * (exp(x) - 1) below 0.
    """

    kind: ClassVar[str] = "activation"
    function: ActivationFunction
    slopes: FloatArray | None = None
    bounds: tuple[float, float] = (-np.inf, np.inf)
    alpha: float = 1.0 / 6.0
    beta: float = 0.5
    integer: IntegerTable | Requant | IntegerWeights | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class TpuSoftmax(TpuOp):
    """Softmax, or its logarithm, along `axis`."""

    kind: ClassVar[str] = "softmax"
    axis: int
    log: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class TpuLayerNorm(TpuOp):
    """Mean 0 and variance 1 over the axes from `axis` on, then scale and bias [of these axes] where there are any."""

    kind: ClassVar[str] = "layer_norm"
    axis: int
    epsilon: float
    scale: FloatArray | None = None
    bias: FloatArray | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class TpuGroupNorm(TpuOp):
    """Mean 0 and variance 1 over each of `groups` equal parts of the channels, then scale and bias [C]."""

    kind: ClassVar[str] = "group_norm"
    groups: int
    epsilon: float
    scale: FloatArray | None = None
    bias: FloatArray | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class TpuEmbedding(TpuOp):
    """Rows of a table [rows, features] by their numbers, whole numbers in float32 that are an input of the network.

    The table is in the op's precision. Numbers beyond it are taken for the nearest row; what the chip takes them for
    is unknown.
    """

    kind: ClassVar[str] = "embedding"
    table: FloatArray

    def weight_bytes(self) -> int:
        """The table in the op's precision."""
        return int(self.table.size) * _WEIGHT_BYTES[self.mode]


@dataclass(frozen=True, eq=False, kw_only=True)
class TpuUpsample(TpuRectified):
    """Every pixel repeated scale_h by scale_w times."""

    kind: ClassVar[str] = "upsample"
    scale_h: int
    scale_w: int


@dataclass(frozen=True, eq=False, kw_only=True)
class TpuInterp(TpuOp):
    """Resize of H and W to the output's size by `method`, pixels aligned as `coordinates` says (ONNX's names)."""

    kind: ClassVar[str] = "interp"
    method: Literal["nearest", "linear"]
    coordinates: Literal["align_corners", "half_pixel", "pytorch_half_pixel", "asymmetric"]


@dataclass(frozen=True, eq=False, kw_only=True)
class TpuPad(TpuOp):
    """Padding: begins of all axes, then ends. `value` counts for `constant`."""

    kind: ClassVar[str] = "pad"
    pads: tuple[int, ...]
    method: Literal["constant", "reflect", "edge"] = "constant"
    value: float = 0.0


@dataclass(frozen=True, eq=False, kw_only=True)
class TpuReduce(TpuOp):
    """Reduction over `axes`."""

    kind: ClassVar[str] = "reduce"
    function: ReduceFunction
    axes: tuple[int, ...]
    keep_dims: bool
    integer: Requant | None = None

    def divisor(self, shape: Sequence[int]) -> int:
        """What the sum over the axes of an input of that shape is divided by."""
        return int(np.prod([shape[axis] for axis in self.axes])) if self.function == "mean" else 1


@dataclass(frozen=True, eq=False)
class TpuGraph:
    """Ops in execution order over named tensors; `inputs` and `outputs` by tensor name."""

    name: str
    tensors: Mapping[str, TpuTensor]
    ops: tuple[TpuOp, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensors", MappingProxyType(dict(self.tensors)))

    def producer(self, tensor: str) -> TpuOp | None:
        """The op that writes `tensor`; None for an input."""
        return next((op for op in self.ops if op.output == tensor), None)

    def reshaped_from(self, tensor: str) -> str:
        """What `tensor` is a reshape of, or itself: equal reshapes of a value are one for the compiler."""
        op = self.producer(tensor)
        return self.reshaped_from(op.inputs[0]) if isinstance(op, TpuReshape) else tensor

    def consumers(self, tensor: str) -> tuple[TpuOp, ...]:
        """The ops that read `tensor`, in order."""
        return tuple(op for op in self.ops if tensor in op.inputs)

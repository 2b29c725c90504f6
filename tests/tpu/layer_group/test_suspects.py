"""The layers that a failed assertion of the compiler's code generator can be about."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnkit_tpu.layer_group.final_program import final_ops
from nnkit_tpu.layer_group.suspects import with_suspects
from nnkit_tpu.toolchain.run import CompilerError

_INTEGER, _REAL = "!quant.uniform<i8:f32, 0.5>", "f16"


def _op(name: str, kind: str, element: str, weight: str) -> str:
    tensors = f"(tensor<1x8x4x4x{element}, 42 : i64>, tensor<1x8x1x9x{weight}, 7 : i64>, none)"
    return f'    %2 = "tpu.{kind}"(%0, %1) {{group = 2 : i64}} : {tensors} -> tensor<1x8x4x4x{element}> loc(#{name})'


FINAL = "\n".join(
    [
        '  %1 = "tpu.Group"(%0) ({',
        _op("loc1", "Conv2D", _INTEGER, "si8"),
        "  }) {nsecs = 1 : i64}",
        _op("loc2", "Conv2D", _INTEGER, "si8"),
        _op("loc3", "Conv2D", _REAL, "f16"),
        _op("loc4", "MatMul", _INTEGER, "si8"),
        *(f'#loc{number} = loc("{name}")' for number, name in enumerate(("inside", "alone", "real", "product"), 1)),
    ]
)


def _error(path: str, function: str, where: str = "") -> CompilerError:
    log = f'[0]{path}/{function}.c:10: {function}: Assertion "a > b" failed.\n'
    told = {"log_path": Path("codegen.log"), "log": log, "advice": "", "timed_out": False}
    return CompilerError("it failed", where=where, **told)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "function", "where", "remedy"),
    [
        ("src/global_layer", "nodechip_conv_quant_asym_int8_parallel", "alone", "tag it `hp`"),
        ("src/local_layer", "nodechip_conv_quant_local", "one of inside, alone", "tag them `hp`"),
        ("src/global_layer", "nodechip_conv_float", "one of alone, real", "the log is"),
        ("src/global_layer", "nodechip_matmul_global", "product", "tag it `hp`"),
        ("src/global_layer", "nodechip_softmax_global", "", "the log is"),
        ("src/global_layer", "other_function", "", "the log is"),
    ],
)
def test_they_are_of_the_functions_kind_and_place(path: str, function: str, where: str, remedy: str) -> None:
    told = with_suspects(_error(path, function), final_ops(FINAL))
    assert told.where == where
    assert told.remedy.startswith(remedy)


def test_a_place_that_is_known_stays() -> None:
    error = _error("src/global_layer", "nodechip_conv_float", "conv_7")
    assert with_suspects(error, final_ops(FINAL)) is error

"""Sums of reshaped values stand before the reshapes where a reader goes back there."""

from __future__ import annotations

from nnkit_tpu.lowering.repeated import without_idle_reshapes
from nnkit_tpu.lowering.residuals import computed_before_reshapes
from nnkit_tpu.program import TpuActivation, TpuBinary, TpuOp, TpuReshape

IMAGE, ROWS = (1, 8, 1, 20), (1, 8, 20)
SHAPES = {**dict.fromkeys(("a", "b", "back", "end"), IMAGE), **dict.fromkeys(("rows_a", "rows_b", "sum"), ROWS)}


def _reshape(source: str, output: str) -> TpuReshape:
    return TpuReshape(name=output, inputs=(source,), output=output)


def _relu(source: str, output: str) -> TpuActivation:
    return TpuActivation(name=output, inputs=(source,), output=output, function="relu")


def _residual() -> tuple[TpuOp, ...]:
    total = TpuBinary(name="sum", inputs=("rows_a", "rows_b"), output="sum", function="add", relu=True)
    return (
        *(_relu("x", "a"), _relu("x", "b"), _reshape("a", "rows_a"), _reshape("b", "rows_b")),
        *(total, _reshape("sum", "back"), _relu("back", "end")),
    )


def _moved(ops: tuple[TpuOp, ...], outputs: tuple[str, ...]) -> list[tuple[str, tuple[str, ...]]]:
    def shape(name: str) -> tuple[int, ...]:
        return SHAPES.get(name) or added[name]

    added: dict[str, tuple[int, ...]] = {}
    moved, added = computed_before_reshapes(ops, outputs, shape)
    return [(op.kind, op.inputs) for op in without_idle_reshapes(moved, ("x",), outputs, shape)]


def test_a_residual_sum_is_taken_on_what_was_reshaped() -> None:
    without = [("activation", ("x",)), ("activation", ("x",)), ("binary", ("a", "b"))]
    assert _moved(_residual(), ("end",)) == [*without, ("activation", ("sum_unshaped",))]
    behind = [("reshape", ("sum_unshaped",)), ("activation", ("sum_unshaped",))]
    assert _moved(_residual(), ("end", "sum")) == [*without, *behind]


def test_it_stays_where_a_reshaped_value_is_needed_or_nothing_goes_back() -> None:
    plain = [(op.kind, op.inputs) for op in _residual()]
    assert _moved(_residual(), ("end", "rows_a")) == plain
    assert _moved(_residual()[:5], ("sum",)) == plain[:5]

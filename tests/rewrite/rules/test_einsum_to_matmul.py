"""einsum_to_matmul: what people write as Einsum becomes products of matrices, element by element, or a Transpose."""

from __future__ import annotations

import pytest

RULE = "einsum_to_matmul"


@pytest.mark.parametrize(
    ("equation", "first", "second"),
    [
        ("bhid,bhjd->bhij", (1, 2, 5, 3), (1, 2, 4, 3)),  # attention
        ("bhij,bhjd->bihd", (1, 2, 5, 4), (1, 2, 4, 3)),
        ("bhdn,bhen->bhde", (1, 2, 3, 6), (1, 2, 4, 6)),
        ("nctv,vw->nctw", (1, 3, 4, 5), (5, 5)),  # graph convolution
        ("bchw,bnc->bnhw", (1, 3, 4, 5), (1, 6, 3)),  # mask coefficients
        ("bijk,bjk->bi", (1, 2, 3, 4), (1, 3, 4)),
        ("...ij,...jk", (1, 2, 3, 4), (1, 2, 4, 5)),
        ("i b d, j b d -> b i j", (5, 1, 3), (4, 1, 3)),
        ("bd,bd->b", (1, 6), (1, 6)),
    ],
)
def test_sums_become_products_of_matrices(graphs, equation, first, second):
    net = graphs.Net(x=first, y=second)
    after, _ = graphs.apply(net.model(net.op("Einsum", "x", "y", name="m", equation=equation), hp=["m"]), RULE)
    assert graphs.ops(after).count("MatMul") == 1
    assert set(graphs.ops(after)) <= {"Transpose", "Reshape", "MatMul"}
    assert after.tags.of(graphs.node(after, "MatMul").output[0]).hp


@pytest.mark.parametrize("constant_first", [False, True])
def test_a_constant_is_the_second_operand_and_turned_beforehand(graphs, constant_first):
    net = graphs.Net(x=(1, 3, 4, 5))
    weight = net.normal(6, 3)
    operands, equation = (["x", weight], "bchw,oc->bohw") if not constant_first else ([weight, "x"], "oc,bchw->bohw")
    after, _ = graphs.apply(net.model(net.op("Einsum", *operands, equation=equation)), RULE)
    assert graphs.ops(after) == ["Transpose", "Reshape", "MatMul", "Reshape", "Transpose"]


@pytest.mark.parametrize(
    ("equation", "second"), [("bchw,bc->bchw", (1, 3)), ("bchw,bchw->bchw", (1, 3, 4, 5)), ("bchw,wb->bhcw", (5, 1))]
)
def test_without_a_sum_elements_are_multiplied(graphs, equation, second):
    net = graphs.Net(x=(1, 3, 4, 5), y=second)
    after, _ = graphs.apply(net.model(net.op("Einsum", "x", "y", equation=equation)), RULE)
    assert "Mul" in graphs.ops(after)
    assert set(graphs.ops(after)) <= {"Transpose", "Reshape", "Mul"}


def test_axes_in_another_order(graphs):
    net = graphs.Net(x=(1, 3, 4, 5))
    after, _ = graphs.apply(net.model(net.op("Einsum", "x", equation="bchw->bhwc")), RULE)
    assert graphs.ops(after) == ["Transpose"]


@pytest.mark.parametrize(
    ("equation", "operands", "reason"),
    [
        ("bii->bi", 1, "diagonal"),
        ("bij,bjk->b", 2, "sums 'i' of one operand alone"),
        ("bij,bij,bij->bij", 3, "3 operands"),
    ],
)
def test_other_sums_stay_and_say_why(graphs, equation, operands, reason):
    net = graphs.Net(x=(1, 4, 4))
    _, log = graphs.apply(net.model(net.op("Einsum", *["x"] * operands, equation=equation)), RULE)
    assert log.of(RULE).fired == ()
    assert reason in log.of(RULE).declined[0].reason

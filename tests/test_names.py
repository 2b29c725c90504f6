"""Names: unique, and short where that is asked for."""

from __future__ import annotations

from nnkit.names import NamePool, shortened


def test_a_name_is_given_out_once():
    pool = NamePool(["a"])
    assert [pool.free("a"), pool.free("a"), pool.free("b", "_hp"), pool.free("b", "_hp")] == [
        "a_2",
        "a_3",
        "b_hp",
        "b_2_hp",
    ]


def test_long_names_are_cut_and_stay_apart():
    pool = NamePool(most_bytes=32)
    wanted = ["x" * 40, "x" * 41, "x" * 40, "x" * 32]
    given = [pool.free(name, "_hp") for name in wanted]
    assert len(set(given)) == 4
    assert all(len(name) == 32 and name.endswith("_hp") for name in given)
    assert pool.free("y" * 29, "_hp") == "y" * 29 + "_hp"
    assert [NamePool(most_bytes=32).free("x" * 40, "_hp")] == given[:1]  # of the name alone, at every run


def test_bytes_count_not_characters():
    found = shortened("\N{GREEK SMALL LETTER ALPHA}" * 20, "_cpu", 32)
    assert len(found.encode()) in (31, 32)  # an alpha is two bytes, and none is cut in half
    assert found.endswith("_cpu")
    assert shortened("\N{GREEK SMALL LETTER ALPHA}" * 16, "", 32) == "\N{GREEK SMALL LETTER ALPHA}" * 16

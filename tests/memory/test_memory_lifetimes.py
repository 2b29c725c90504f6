"""Which tensors share bytes, and how long buffers live: hand-worked graphs."""

from __future__ import annotations

import pytest
from program_builder import ProgramBuilder

from nnkit.errors import InternalError
from nnkit.memory.lifetimes import (
    build_storages,
    choose_storages,
    moves_nothing,
    possible_sharings,
    tensor_lifetimes,
)
from nnkit.program import Program


def test_inputs_live_from_the_start_and_outputs_to_the_end() -> None:
    net = ProgramBuilder()
    a, b = net.input(2, 4, 4), net.input(2, 4, 4)
    early = net.conv(a, 2, name="early")
    late = net.conv(b, 2, name="late")
    program = net.build(early, net.conv(late, 2, name="last"))
    assert tensor_lifetimes(program) == {
        "in0": (0, 0),
        "in1": (0, 1),
        "early_v": (0, 2),
        "late_v": (1, 2),
        "last_v": (2, 2),
    }


def test_a_reshape_shares_its_input() -> None:
    net = ProgramBuilder()
    x = net.conv(net.input(2, 4, 4), 2)
    program = net.build(net.conv(net.reshape(x, 32, 1, 1, name="flat"), 3))
    storages = build_storages(program, [])
    assert storages.places["flat_v"] == storages.places[x]
    assert moves_nothing(program.ops[1], storages, program)


def test_parts_of_a_concatenation_are_written_in_place() -> None:
    net = ProgramBuilder()
    x = net.input(2, 4, 4)
    a, b = net.conv(x, 3, name="a"), net.conv(x, 5, name="b")
    program = net.build(net.conv(net.concat(a, b, name="cat"), 2))
    storages = choose_storages(program)
    buffer = storages.places["cat_v"][0]
    assert storages.places[a] == (buffer, 0)
    assert storages.places[b] == (buffer, 3 * 4 * 4 * 2)
    assert storages.buffers[buffer].first_op == 0
    assert moves_nothing(program.ops[2], storages, program)


def test_nested_concatenations_share_one_buffer() -> None:
    net = ProgramBuilder()
    x = net.input(2, 4, 4)
    a, b, c = (net.conv(x, n, name=f"p{n}") for n in (1, 2, 3))
    program = net.build(net.conv(net.concat(c, net.concat(a, b, name="inner"), name="outer"), 2))
    storages = choose_storages(program)
    plane = 4 * 4 * 2
    assert storages.places[b] == (storages.places["outer_v"][0], (3 + 1) * plane)
    assert all(moves_nothing(op, storages, program) for op in program.ops if op.kind == "concat")


@pytest.mark.parametrize("obstacle", ["shift", "input", "twice", "two owners", "format"])
def test_parts_that_must_be_copied(obstacle: str) -> None:
    net = ProgramBuilder()
    x = net.input(2, 4, 4)
    a = net.conv(x, 2, name="a", bits=8 if obstacle == "format" else 16)
    b = net.conv(x, 2, name="b")
    if obstacle == "shift":
        net.concat(a, b, shifts=(1, 0), name="cat")
    elif obstacle == "input":
        net.concat(x, b, name="cat")
    elif obstacle == "twice":
        net.concat(a, a, name="cat")
    elif obstacle == "two owners":
        net.concat(a, b, name="other")
        net.concat(b, a, name="cat")
    else:
        net.concat(a, b, name="cat")
    program = net.build("cat_v", *(["other_v"] if obstacle == "two owners" else []))
    storages = build_storages(program, possible_sharings(program))
    cat = next(op for op in program.ops if op.name == "cat")
    assert not moves_nothing(cat, storages, program)
    if obstacle == "twice":  # the first of the two can be in place, the second is a copy of it
        assert storages.places[a] == storages.places["cat_v"]
    if obstacle in ("shift", "format"):
        assert storages.places[a][0] != storages.places["cat_v"][0]
        assert storages.places[b][0] == storages.places["cat_v"][0]
    if obstacle == "input":
        assert storages.places[x][0] != storages.places["cat_v"][0]


def residual(reader_after: bool = False) -> Program:
    net = ProgramBuilder()
    x = net.conv(net.input(2, 4, 4), 2, name="stem")
    y = net.conv(x, 2, name="branch")
    z = net.add(x, y, name="sum")
    outputs = [net.conv(z, 2, name="head")]
    if reader_after:
        outputs.append(net.conv(x, 2, name="reader"))
    return net.build(*outputs)


def test_an_addition_reuses_a_dying_input() -> None:
    storages = choose_storages(residual())
    assert storages.places["sum_v"] == storages.places["stem_v"]
    assert storages.places["sum_v"][0] != storages.places["branch_v"][0]


def test_an_addition_leaves_an_input_alone_that_is_read_later() -> None:
    storages = choose_storages(residual(reader_after=True))
    assert storages.places["sum_v"][0] != storages.places["stem_v"][0]
    assert storages.places["sum_v"] == storages.places["branch_v"]


def test_an_output_of_the_program_is_never_overwritten() -> None:
    net = ProgramBuilder()
    x = net.conv(net.input(2, 4, 4), 2, name="a")
    program = net.build(x, net.activation(x, name="b"))
    storages = choose_storages(program)
    assert storages.places["a_v"][0] != storages.places["b_v"][0]


def test_another_storage_size_is_not_in_place() -> None:
    net = ProgramBuilder()
    x = net.conv(net.input(2, 4, 4), 2, name="a")
    program = net.build(net.activation(x, name="b", bits=8))
    storages = choose_storages(program)
    assert storages.places["a_v"][0] != storages.places["b_v"][0]


def test_a_gate_that_is_part_of_the_gated_bytes_is_not_overwritten() -> None:
    """mul(x, g) where g's bytes lie inside x's would destroy g while channels still need it."""
    net = ProgramBuilder()
    inp = net.input(1, 1, 1)
    g, rest = net.conv(inp, 1, name="g"), net.conv(inp, 1, name="rest")
    both = net.concat(g, rest, name="cat")
    program = net.build(net.mul(both, net.reshape(g, 1, 1, 1, name="again"), name="gated"))
    storages = build_storages(program, possible_sharings(program))
    assert storages.places["again_v"][0] == storages.places["cat_v"][0]
    assert storages.places["gated_v"][0] != storages.places["cat_v"][0]


def test_a_long_skip_connection_is_copied_where_that_lowers_the_peak() -> None:
    """Written in place, the whole 64-channel concatenation would live through the deep middle."""
    net = ProgramBuilder(bits=8)
    skip = net.conv(net.input(1, 4, 4), 2, name="skip")
    deep = net.conv(skip, 100, name="deep1")
    deep = net.conv(deep, 100, name="deep2")
    deep = net.conv(deep, 62, name="up")
    program = net.build(net.conv(net.concat(skip, deep, name="cat"), 1, name="head"))
    plane = 16
    granted = build_storages(program, possible_sharings(program))
    assert max(granted.live_bytes(len(program.ops))) == (64 + 100 + 100) * plane
    chosen = choose_storages(program)
    assert max(chosen.live_bytes(len(program.ops))) == (2 + 100 + 100) * plane
    assert chosen.places["up_v"][0] == chosen.places["cat_v"][0]
    assert chosen.places["skip_v"][0] != chosen.places["cat_v"][0]


def test_what_could_not_hold_beside_a_sharing_given_up_is_granted_after_it() -> None:
    """`skip` in place would keep the concatenation from being overwritten, since `tail` reads it at the end."""
    net = ProgramBuilder(bits=8)
    part = net.conv(net.input(1, 1, 1), 6, name="part")
    skip = net.conv(part, 7, name="skip")
    active = net.activation(net.concat(part, skip, name="cat"), name="active")
    head = net.conv(active, 11, name="head")
    program = net.build(head, net.conv(skip, 2, name="tail"))
    everything = build_storages(program, possible_sharings(program))
    assert max(everything.live_bytes(len(program.ops))) == 13 + 13 + 11  # cat (for skip), active, head
    chosen = choose_storages(program)
    assert chosen.places["active_v"] == chosen.places["cat_v"] == chosen.places["part_v"]
    assert max(chosen.live_bytes(len(program.ops))) == 7 + 13 + 11  # skip, active over cat, head


def test_a_sharing_that_was_given_up_without_need_is_taken_back() -> None:
    """Either part of the concatenation widens the peak in place; with `late` copied, `early` costs nothing."""
    net = ProgramBuilder(bits=8)
    x = net.conv(net.input(1, 1, 1), 2, name="x")
    active, output = net.activation(x, name="active"), net.activation(x, name="output")
    late = net.conv(active, 1, name="late")
    early = net.conv(x, 1, name="early")
    program = net.build(output, net.concat(early, late, name="cat"))
    chosen = choose_storages(program)
    assert max(chosen.live_bytes(len(program.ops))) == 7  # x, active, output and late while late is computed
    assert chosen.places["early_v"] == chosen.places["cat_v"]
    assert chosen.places["late_v"][0] != chosen.places["cat_v"][0]


def test_a_value_that_nobody_wrote_is_an_internal_error() -> None:
    program = residual()
    broken = Program("broken", program.tensors, program.ops[1:], program.inputs, program.outputs)
    with pytest.raises(InternalError, match="read before it is written"):
        tensor_lifetimes(broken)

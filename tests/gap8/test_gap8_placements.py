"""Placements of L2 are remembered: plans with more and more room for code are the same, and searched for once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from program_builder import block_needs, face_network

from nnkit.memory.problem import Placement, Problem
from nnkit_gap8 import placements
from nnkit_gap8.placements import Placements
from nnkit_gap8.planner import plan
from tests.gap8.test_gap8_planner import machine


def test_plans_with_more_code_are_the_same_and_searched_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[Problem] = []
    place = placements.place

    def counted(problem: Problem, *effort: Any) -> Placement:
        searched.append(problem)
        return place(problem, *effort)

    program = face_network()
    rooms = (0, 40 << 10, 150 << 10)
    alone = [plan(program, block_needs, replace(machine(), code_bytes=room)) for room in rooms]
    monkeypatch.setattr(placements, "place", counted)
    known = Placements()
    first = plan(program, block_needs, replace(machine(), code_bytes=rooms[0]), placements=known)
    count = len(searched)
    assert count >= 1
    others = [plan(program, block_needs, replace(machine(), code_bytes=room), placements=known) for room in rooms[1:]]
    assert [first, *others] == alone
    assert len(searched) == count


def test_another_problem_is_searched_for() -> None:
    known = Placements()
    small, large = (
        plan(face_network(), block_needs, machine(), placements=known, repack_limit=limit) for limit in (0.05, 0.0)
    )
    assert small.regions["l2"].peak_bytes < large.regions["l2"].peak_bytes

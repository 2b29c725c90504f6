"""What people and files see of a plan: JSON, the drawing."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from program_builder import ProgramBuilder, block_needs, face_network
from random_programs import random_programs

from nnkit.memory import local_memory_svg, memory_map_svg, plan_to_json
from nnkit.memory.drawing import shortened
from nnkit.memory.local import LocalMemory, Span
from nnkit.memory.plan import Region
from nnkit.program import Program
from nnkit_gap8.loads import MemoryMachine
from nnkit_gap8.planner import plan

MACHINE = MemoryMachine(Region("l1", 65536), Region("l2", 524288), Region("l3", 1 << 23), 1000, 2000)
FACE = face_network()
PLAN = plan(FACE, block_needs, MACHINE)
SVG = "{http://www.w3.org/2000/svg}"


@settings(max_examples=30)
@given(random_programs())
def test_plan_json_says_where_everything_lies(program: Program) -> None:
    """From the file alone: no two buffers share a byte at one step, tensors lie inside their buffers, and so on."""
    data = json.loads(json.dumps(plan_to_json(plan(program, block_needs, MACHINE))))
    buffers = data["buffers"]
    for a, b in combinations(buffers.values(), 2):
        together = a["first_step"] <= b["last_step"] and b["first_step"] <= a["last_step"]
        if together and a["region"] == b["region"] and min(a["size_bytes"], b["size_bytes"]) > 0:
            first, second = sorted((a, b), key=lambda buffer: buffer["offset_bytes"])
            assert first["offset_bytes"] + first["size_bytes"] <= second["offset_bytes"]
    for name, use in data["regions"].items():
        ends = [b["offset_bytes"] + b["size_bytes"] for b in buffers.values() if b["region"] == name]
        weight_bytes = data["l3_weight_bytes"] if name == "l3" else 0  # they lie there all the time
        assert use["lower_bound_bytes"] <= max(ends, default=0) + weight_bytes == use["peak_bytes"]
    assert set(data["tensors"]) == set(program.tensors)
    for place in data["tensors"].values():
        assert place["offset_bytes"] + place["size_bytes"] <= buffers[place["buffer"]]["size_bytes"]
    assert [step["op"] for step in data["steps"] if step["op"]]
    assert {chunk["buffer"] for chunk in data["chunks"]} <= set(buffers)


def boxes(svg: str) -> dict[str, tuple[float, float, float, float]]:
    """Buffer name -> (x, y, width, height), from the titles of the drawing's boxes."""
    drawn = {}
    for element in ElementTree.fromstring(svg).iter(f"{SVG}rect"):
        title = element.find(f"{SVG}title")
        if title is not None and title.text:
            x, y, width, height = (float(element.get(k, "nan")) for k in ("x", "y", "width", "height"))
            drawn[title.text.split(" (")[0]] = (x, y, width, height)
    return drawn


def test_the_drawing_shows_every_buffer_of_the_region_in_proportion() -> None:
    drawn = boxes(memory_map_svg(PLAN, "l2"))
    buffers = {name: b for name, b in PLAN.buffers.items() if b.region == "l2"}
    assert set(drawn) == set(buffers)
    large, small = drawn["fire1_v"], drawn["conv1_v"]
    assert large[3] / small[3] == pytest.approx(246_016 / 98_304, rel=0.01)
    step_width = drawn["stack"][2] / len(PLAN.steps)
    for name, (x, _, width, _) in drawn.items():
        buffer = buffers[name]
        assert width == pytest.approx((buffer.last_step - buffer.first_step + 1) * step_width, abs=0.2)
        assert (x - drawn["stack"][0]) / step_width == pytest.approx(buffer.first_step, abs=0.02)
    # A higher address is drawn further up; boxes that live at once do not cover each other.
    for a in buffers.values():
        for b in buffers.values():
            together = a.first_step <= b.last_step and b.first_step <= a.last_step
            if a.name != b.name and together and a.offset_bytes < b.offset_bytes:
                assert drawn[b.name][1] + drawn[b.name][3] <= drawn[a.name][1] + 0.7  # tiny boxes are 0.6 high


def test_the_drawing_names_the_layers_and_the_figures() -> None:
    svg = memory_map_svg(PLAN, "l2")
    assert f"{PLAN.regions['l2'].peak_bytes:,} of 524,288 bytes" in svg
    for op in FACE.ops:
        assert f"<title>{op.name}</title>" in svg
    assert memory_map_svg(PLAN, "l2") == svg


def test_labels_stand_inside_their_boxes_and_say_at_least_four_letters() -> None:
    svg = memory_map_svg(PLAN, "l2")
    drawn = boxes(svg)
    labels = [text for text in ElementTree.fromstring(svg).iter(f"{SVG}text") if text.get("pointer-events") == "none"]
    assert labels
    for label in labels:
        x, y, text = float(label.get("x", "nan")), float(label.get("y", "nan")) - 3.5, label.text or ""
        [(_, _, width, height)] = [
            box for box in drawn.values() if abs(box[0] + box[2] / 2 - x) < 0.2 and abs(box[1] + box[3] / 2 - y) < 0.2
        ]
        length, thickness = (height, width) if label.get("transform") else (width, height)
        assert 4 <= len(text) <= length / 6.1  # letters of a 10 px label are about as wide
        assert thickness >= 11
    roomy = [box for box in drawn.values() if min(box[2:]) >= 11 and max(box[2:]) >= 40]
    assert len(labels) >= len(roomy)


@pytest.mark.parametrize("region", ["l1", "l2", "l3"])
def test_every_region_can_be_drawn(region: str) -> None:
    assert boxes(memory_map_svg(PLAN, region))


def test_an_empty_region_is_drawn_empty() -> None:
    net = ProgramBuilder()
    program = net.build(net.activation(net.input(2, 4, 4)))
    planned = plan(program, block_needs, replace(MACHINE, context_bytes=0, stack_bytes=0))
    for region in ("l1", "l3"):
        assert boxes(memory_map_svg(planned, region)) == {}


def test_names_are_escaped() -> None:
    net = ProgramBuilder()
    program = net.build(net.conv(net.input(2, 4, 4), 2, name='<a & "b">'))
    assert any('<a & "b">' in name for name in boxes(memory_map_svg(plan(program, block_needs, MACHINE), "l2")))


def test_a_long_name_keeps_both_of_its_ends() -> None:
    assert shortened("features.12.expand3x3.conv", 11) == "featu….conv"
    assert len(shortened("features.12.expand3x3.conv", 4)) == 4
    assert shortened("conv1", 5) == "conv1"


def test_a_memory_of_the_targets_own_tool_has_a_box_for_each_span_in_proportion() -> None:
    spans = (Span("group 1", "a", "b", 600), Span("group 2", "c", "c", 300, "weights"))
    svg = local_memory_svg(LocalMemory("lane", "Local memory", 1000, spans), ["a", "b", "c"])
    (x, _, width, height), (right, _, narrow, low) = (boxes(svg)[name] for name in ("group 1", "group 2"))
    assert (x + width, width / narrow, height / low) == pytest.approx((right, 2, 2), rel=1e-3)
    assert "Local memory: 600 of 1,000 bytes" in svg
    assert "Local memory: 600 bytes" in local_memory_svg(
        LocalMemory("x", "Local memory", None, spans), ["a", "b", "c"]
    )

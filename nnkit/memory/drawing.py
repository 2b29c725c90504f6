"""A memory plan as a picture: steps from left to right, addresses from bottom to top, buffers as boxes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape as escape_markup

from nnkit.memory.local import LocalMemory
from nnkit.memory.plan import MemoryPlan

_PLOT_HEIGHT = 480
_LEFT, _TOP, _RIGHT, _BOTTOM = 84, 56, 24, 150
_MIN_STEP_WIDTH, _MAX_STEP_WIDTH, _PLOT_WIDTH = 16.0, 72.0, 1200.0
_CHARACTER_WIDTH = 6.1  # of the 10 px labels
_COLOURS = {  # kind: (fill, stroke)
    "activation": ("#cfe0f3", "#3b6ea5"),
    "weights": ("#fbdcb8", "#b8690f"),
    "scratch": ("#d5ecd0", "#4a8a3c"),
    "context": ("#e2e2e2", "#6b6b6b"),
    "stack": ("#cdc9d6", "#5d5570"),
    "code": ("#ead4ea", "#8a4a8a"),
}


@dataclass(frozen=True)
class _Box:
    name: str
    kind: str
    offset_bytes: int
    size_bytes: int
    first_step: int
    last_step: int
    note: str = ""


def memory_map_svg(plan: MemoryPlan, region: str) -> str:
    """The buffers of a region over time as SVG text; the same plan gives the same bytes.

    A region without buffers that holds the streamed weights (`l3`) shows them as they lie there.

    Raises:
        KeyError: the plan has no such region.
    """
    use = plan.regions[region]
    title = (
        f"{region}: {use.peak_bytes:,}{f' of {use.capacity_bytes:,}' if use.limited else ''} bytes"
        f"{_proof(use.peak_bytes, use.lower_bound_bytes, use.proven_optimal)}"
    )
    return _picture(title, _boxes(plan, region), [step.op for step in plan.steps], use.peak_bytes, use.capacity_bytes)


def local_memory_svg(memory: LocalMemory, layers: Sequence[str]) -> str:
    """A memory that a target's own tool plans as SVG text, a box for each span. layers: in order of execution."""
    at = {name: index for index, name in enumerate(layers)}
    boxes = [_Box(s.name, s.kind, 0, s.size_bytes, at[s.first_layer], at[s.last_layer]) for s in memory.spans]
    peak = max((box.size_bytes for box in boxes), default=0)
    of = "" if memory.capacity_bytes is None else f" of {memory.capacity_bytes:,}"
    return _picture(f"{memory.title}: {peak:,}{of} bytes", boxes, layers, peak, memory.capacity_bytes)


def _picture(title: str, boxes: Sequence[_Box], ops: Sequence[str], peak: int, capacity: int | None) -> str:
    """ops: the layer of each step."""
    steps = max(len(ops), 1)
    step_width = max(_MIN_STEP_WIDTH, min(_MAX_STEP_WIDTH, _PLOT_WIDTH / steps))
    # The capacity belongs into the picture unless it would squeeze everything else to a stripe.
    top_bytes = max(peak, capacity if capacity is not None and capacity <= 2.5 * peak else 0, 1)
    scale = _PLOT_HEIGHT / (top_bytes * 1.04)
    width, height = _LEFT + steps * step_width + _RIGHT, _TOP + _PLOT_HEIGHT + _BOTTOM
    width = max(width, _LEFT + 8.5 * len(title))  # the title's letters are larger than the labels'
    frame = _Frame(step_width, scale)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
        f'viewBox="0 0 {width:.0f} {height}" font-family="sans-serif" font-size="10">',
        f'<rect width="{width:.0f}" height="{height}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="20" font-size="14" font-weight="bold">{_text(title)}</text>',
        *_legend(boxes),
        *_address_axis(frame, top_bytes, steps),
        *_step_axis(ops, frame),
    ]
    for box in boxes:
        lines.extend(_draw(box, frame))
    lines.extend(_level(frame, peak, steps, "peak", "#b02020"))
    if capacity is not None and capacity <= top_bytes and capacity != peak:
        lines.extend(_level(frame, capacity, steps, "capacity", "#202020"))
    lines.append("</svg>")
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class _Frame:
    step_width: float
    scale: float

    def x(self, step: int) -> float:
        return _LEFT + step * self.step_width

    def y(self, offset_bytes: int) -> float:
        return _TOP + _PLOT_HEIGHT - offset_bytes * self.scale


def _boxes(plan: MemoryPlan, region: str) -> list[_Box]:
    uses = {chunk.buffer: f", copied in step {chunk.fetch_step}, used in step {chunk.step}" for chunk in plan.chunks}
    boxes = [
        _Box(b.name, b.kind, b.offset_bytes, b.size_bytes, b.first_step, b.last_step, uses.get(b.name, ""))
        for b in plan.buffers.values()
        if b.region == region and b.size_bytes
    ]
    if not boxes and region == "l3":
        last = max(len(plan.steps) - 1, 0)
        sizes: dict[str, list[int]] = {}
        for chunk in plan.chunks:
            span = sizes.setdefault(chunk.op, [chunk.l3_offset_bytes, 0])
            span[1] += chunk.size_bytes
        boxes = [_Box(op, "weights", offset, size, 0, last) for op, (offset, size) in sizes.items()]
    return sorted(boxes, key=lambda box: (box.first_step, box.offset_bytes, box.name))


def _proof(peak: int, bound: int, proven: bool) -> str:
    return (
        " (proven optimal)" if proven else f" (lower bound {bound:,}, {100 * (peak - bound) / max(peak, 1):.1f}% off)"
    )


def _legend(boxes: Sequence[_Box]) -> Iterator[str]:
    x = float(_LEFT)
    for kind, (fill, stroke) in _COLOURS.items():
        if any(box.kind == kind for box in boxes):
            yield f'<rect x="{x:.1f}" y="30" width="12" height="12" fill="{fill}" stroke="{stroke}"/>'
            yield f'<text x="{x + 17:.1f}" y="40">{kind}</text>'
            x += 30 + len(kind) * _CHARACTER_WIDTH


def _address_axis(frame: _Frame, top_bytes: int, steps: int) -> Iterator[str]:
    tick = 1
    while top_bytes / tick > 10:
        tick *= 2
    for offset in range(0, top_bytes + 1, tick):
        y = frame.y(offset)
        label = f"{offset // 1024} KiB" if tick % 1024 == 0 else f"{offset} B"
        yield f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{frame.x(steps):.1f}" y2="{y:.1f}" stroke="#e8e8e8"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">{label}</text>'


def _step_axis(ops: Sequence[str], frame: _Frame) -> Iterator[str]:
    """Each layer's name under its first step, and a thin line where a layer begins."""
    bottom = _TOP + _PLOT_HEIGHT
    previous = None
    for step, op in enumerate(ops):
        if op == previous:
            continue
        previous = op
        x = frame.x(step)
        yield f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom}" stroke="#f2f2f2"/>'
        at = x + min(frame.step_width, _MIN_STEP_WIDTH) / 2 + 3
        name = shortened(op, 22)
        yield (
            f'<text x="{at:.1f}" y="{bottom + 10}" text-anchor="end" '
            f'transform="rotate(-60 {at:.1f} {bottom + 10})">{_text(name)}<title>{_text(op)}</title></text>'
        )


def _draw(box: _Box, frame: _Frame) -> Iterator[str]:
    fill, stroke = _COLOURS[box.kind]
    x, width = frame.x(box.first_step), (box.last_step - box.first_step + 1) * frame.step_width
    y, height = frame.y(box.offset_bytes + box.size_bytes), box.size_bytes * frame.scale
    title = (
        f"{box.name} ({box.kind}): {box.size_bytes:,} bytes at {box.offset_bytes:,}..."
        f"{box.offset_bytes + box.size_bytes - 1:,}, steps {box.first_step}...{box.last_step}{box.note}"
    )
    yield (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{max(height, 0.6):.1f}" fill="{fill}" '
        f'stroke="{stroke}" stroke-width="0.8"><title>{_text(title)}</title></rect>'
    )
    middle_x, middle_y = x + width / 2, y + height / 2
    across = int((width - 4) / _CHARACTER_WIDTH) if height >= 11 else 0
    along = int((height - 4) / _CHARACTER_WIDTH) if width >= 11 else 0
    if across >= min(len(box.name), along) and across >= 4:
        yield _label(middle_x, middle_y + 3.5, shortened(box.name, across), "")
    elif along >= 4:
        turn = f' transform="rotate(-90 {middle_x:.1f} {middle_y:.1f})"'
        yield _label(middle_x, middle_y + 3.5, shortened(box.name, along), turn)


def _label(x: float, y: float, text: str, turn: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" pointer-events="none"{turn}>{_text(text)}</text>'


def _level(frame: _Frame, offset_bytes: int, steps: int, name: str, colour: str) -> Iterator[str]:
    y, end = frame.y(offset_bytes), frame.x(steps)
    yield (
        f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{end:.1f}" y2="{y:.1f}" stroke="{colour}" stroke-width="1.2" '
        'stroke-dasharray="5 3"/>'
    )
    yield (
        f'<text x="{end - 4:.1f}" y="{y - 4:.1f}" text-anchor="end" fill="{colour}">'
        f"{name} {offset_bytes:,} bytes</text>"
    )


def _text(text: str) -> str:
    """Escaped for XML, which has no place for control characters."""
    return escape_markup("".join(c if c.isprintable() else "?" for c in text))


def shortened(text: str, room: int) -> str:
    """The text in so many characters; cut in the middle, because names of layers differ at both ends."""
    if len(text) <= room:
        return text
    kept = max(room - 1, 1)
    head = (kept + 1) // 2
    return f"{text[:head]}…{text[len(text) - (kept - head) :]}"

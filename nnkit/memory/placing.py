"""Solve a `Problem`: regions by branch and bound over costs, offsets by the search of `nnkit.memory.engine`.

Every planner of nnkit asks it. Buffers that share bytes become one unit: the outermost buffer, live as long as any of
them. A first choice gives the cheapest regions to the units that save most there for each byte and step. Then units
are given regions, largest first and cheapest region first; a choice is cut where its cost cannot beat the best one so
far or where the units of one step outgrow a region. A complete choice counts if every region packs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lcm

from nnkit.errors import DoesNotFitError, InternalError
from nnkit.memory import engine
from nnkit.memory.packing import Item, Packing, Rules, max_live
from nnkit.memory.plan import Region
from nnkit.memory.problem import Place, Placement, Problem, RegionPeak, Request


def place(problem: Problem, effort: engine.Effort | None = None) -> Placement:
    """A placement of the least cost, and for it the least peak of every region, as far as the effort goes.

    Deterministic. `effort.search_nodes` also limits the choices of regions that are looked at.

    Raises:
        DoesNotFitError: no placement was found; the reason says whether there is none.
        InternalError: the problem contradicts itself (see `Problem`), or fixed buffers overlap.
    """
    units = _units(problem)
    search = _Search(problem, units, effort or engine.Effort())
    search.run()
    if search.best is None:
        raise _does_not_fit(problem, search)
    chosen, solutions = search.best
    places = {}
    for name, (root, offset) in problem.roots.items():
        region = chosen[root]
        places[name] = Place(region, solutions[region].offsets_bytes[root] + offset)
    peaks = {
        region.name: RegionPeak(solutions[region.name].peak_bytes, solutions[region.name].lower_bound_bytes)
        for region in problem.regions
    }
    bound = search.best_cost if search.proven else min(search.best_cost, search.open_bound)
    return Placement(places, peaks, search.best_cost, bound)


def lower_bound_bytes(problem: Problem, region: str) -> int:
    """Bytes of `region` that no placement can do without: those of the buffers that may go nowhere else.

    Raises:
        InternalError: the problem contradicts itself (see `Problem`).
    """
    units = [unit for unit in _units(problem) if [name for name, _ in unit.costs] == [region]]
    search = _Search(problem, units, engine.Effort())
    return max_live(search.packing(search.regions[region], units))[0]


@dataclass(frozen=True)
class _Unit:
    """Buffers that share bytes. costs: by region that all of them may go to."""

    item: Item
    costs: tuple[tuple[str, int], ...]


def _units(problem: Problem) -> list[_Unit]:
    roots = problem.roots
    members: dict[str, list[tuple[Request, int]]] = {}
    for request in problem.requests:
        root, offset = roots[request.name]
        members.setdefault(root, []).append((request, offset))
    return [_unit(problem, root, group) for root, group in members.items()]


def _unit(problem: Problem, root: str, group: list[tuple[Request, int]]) -> _Unit:
    outer = problem.by_name[root]
    alignment, fixed = 1, None
    priced = [request for request, _ in group if request.costs]
    costs = {region.name: 0 for region in problem.regions}
    for request in priced:
        costs = {name: cost + request.costs[name] for name, cost in costs.items() if name in request.costs}
    for request, offset in group:
        if offset % request.alignment_bytes:
            raise InternalError(f"its place inside {root!r} contradicts its alignment", where=request.name)
        if request.within_bank and request.size_bytes != outer.size_bytes:
            raise InternalError("a part of another buffer cannot be kept within a bank alone", where=request.name)
        alignment = lcm(alignment, request.alignment_bytes)
        if request.fixed_offset_bytes is not None:
            start = request.fixed_offset_bytes - offset
            if fixed not in (None, start):
                raise InternalError("buffers that share bytes are fixed at different places", where=request.name)
            fixed = start
    if not costs:
        raise InternalError("buffers that share bytes may go to no region together", where=root)
    item = Item(
        root,
        outer.size_bytes,
        min(request.first_step for request, _ in group),
        max(request.last_step for request, _ in group),
        alignment,
        fixed,
        any(request.within_bank for request, _ in group),
    )
    entries = tuple(costs.items())
    return _Unit(item, tuple(sorted(entries, key=lambda entry: entry[1])) if priced else entries)


_MARGINS = (0, 1, 2, 4, 8)
"""Sixteenths of a region that are left free where nothing packs otherwise."""


def _saving(unit: _Unit) -> float:
    steps = unit.item.last_step - unit.item.first_step + 1
    return (unit.costs[-1][1] - unit.costs[0][1]) / max(unit.item.size_bytes * steps, 1)


class _Search:
    """Branch and bound over the units' regions."""

    def __init__(self, problem: Problem, units: list[_Unit], effort: engine.Effort) -> None:
        self.problem = problem
        self.effort = effort
        self.in_order = units  # of the requests: addresses do not depend on names
        self.units = sorted(units, key=lambda u: (len(u.costs) > 1, -u.item.size_bytes, u.item.id))
        self.regions = {region.name: region for region in problem.regions}
        steps = sorted({s for u in units for s in (u.item.first_step, u.item.last_step)})
        self.step_index = {step: k for k, step in enumerate(steps)}
        self.load = {name: [0] * len(steps) for name in self.regions}
        self.diagonals = _usable_diagonals(problem, units)
        least = [unit.costs[0][1] for unit in self.units]
        self.least_after = [sum(least[k:]) for k in range(len(least) + 1)]
        self.chosen: dict[str, str] = {}
        self.best: tuple[dict[str, str], dict[str, engine.Solution]] | None = None
        self.best_cost = -1
        self.open_bound = self.least_after[0]
        self.proven = True
        self.nodes = 0
        self.margin_sixteenths = 0

    def run(self) -> None:
        """Find the cheapest choice that packs.

        Where half of the effort finds none, regions are filled less and less, which packs more easily and proves
        nothing.
        """
        if all(len(unit.costs) == 1 for unit in self.units):  # nothing to choose
            self.chosen = {unit.item.id: unit.costs[0][0] for unit in self.units}
            self._pack(self.least_after[0])
            return
        for self.margin_sixteenths in _MARGINS:
            if self.best is None:
                self._by_saving()
        self.margin_sixteenths = 0
        limit = self.nodes + self.effort.search_nodes // 2 + 2 * len(self.units)
        self._descend(limit)
        for self.margin_sixteenths in _MARGINS[1:]:
            if self.best is not None or self.proven:
                return
            self._descend(self.nodes + self.effort.search_nodes // 8 + 2 * len(self.units))

    def _by_saving(self) -> None:
        """One choice: units one after another, by what the cheapest region saves for each byte and step."""
        order = sorted(self.units, key=lambda unit: (len(unit.costs) > 1, -_saving(unit), unit.item.id))
        cost = 0
        for unit in order:
            for name, price in unit.costs:
                self._add(unit, name, 1)
                if self._may_fit(unit, name, with_diagonals=False):
                    self.chosen[unit.item.id] = name
                    cost += price
                    break
                self._add(unit, name, -1)
        if len(self.chosen) == len(self.units):
            self._pack(cost)
        for unit in order:
            if unit.item.id in self.chosen:
                self._add(unit, self.chosen.pop(unit.item.id), -1)

    def _descend(self, max_nodes: int) -> None:
        """Depth first; `best` is the cheapest choice found."""
        count = len(self.units)
        tried = [0] * count  # options of each unit that were looked at
        costs = [0] * (count + 1)
        index = 0
        while index >= 0:
            if index == count:
                self._pack(costs[index])
            elif self._take_next(index, tried, costs, max_nodes):
                index += 1
                if index < count:
                    tried[index] = 0
                continue
            index -= 1
            if index >= 0:
                unit = self.units[index]
                self._add(unit, self.chosen.pop(unit.item.id), -1)

    def _take_next(self, index: int, tried: list[int], costs: list[int], max_nodes: int) -> bool:
        """Give a unit its next region that may lead to a better choice; False where there is none."""
        unit = self.units[index]
        while tried[index] < len(unit.costs):
            if self.nodes >= max_nodes:
                self.proven = False
                return False
            name, price = unit.costs[tried[index]]
            tried[index] += 1
            self.nodes += 1
            costs[index + 1] = costs[index] + price
            if self.best is not None and costs[index + 1] + self.least_after[index + 1] >= self.best_cost:
                return False  # dearer ones follow
            self._add(unit, name, 1)
            self.chosen[unit.item.id] = name
            if self._may_fit(unit, name):
                return True
            del self.chosen[unit.item.id]
            self._add(unit, name, -1)
        return False

    def _add(self, unit: _Unit, name: str, sign: int) -> None:
        load = self.load[name]
        first, last = self.step_index[unit.item.first_step], self.step_index[unit.item.last_step]
        for k in range(first, last + 1):
            load[k] += sign * unit.item.size_bytes

    def _may_fit(self, unit: _Unit, name: str, *, with_diagonals: bool = True) -> bool:
        """Whether no step of the unit holds more than the region, with all that diagonal overlaps may save."""
        pairs = self.diagonals.items() if with_diagonals else ()
        saved = sum(size for pair, size in pairs if all(self.chosen.get(n) == name for n in pair))
        first, last = self.step_index[unit.item.first_step], self.step_index[unit.item.last_step]
        room = self.regions[name].capacity_bytes * (16 - self.margin_sixteenths) // 16
        return max(self.load[name][first : last + 1]) - saved <= room

    def _pack(self, cost: int) -> None:
        solutions: dict[str, engine.Solution] = {}
        for name, region in self.regions.items():
            packing = self.packing(region, [unit for unit in self.in_order if self.chosen[unit.item.id] == name])
            solution = engine.pack(packing, self.effort, region.capacity_bytes)
            self.nodes += solution.certificate.search_nodes
            if solution.peak_bytes > region.capacity_bytes:
                if solution.lower_bound_bytes <= region.capacity_bytes:
                    self.proven = False  # it may fit; the effort was too small to tell
                return
            solutions[name] = solution
        self.best, self.best_cost = (dict(self.chosen), solutions), cost

    def packing(self, region: Region, units: list[_Unit]) -> Packing:
        """What the allocator is asked about `units` in `region`."""
        items = tuple(_in_region(unit.item, region) for unit in units)
        return Packing.of(items, self._rules(region, items))

    def _rules(self, region: Region, items: tuple[Item, ...]) -> Rules:
        here = {item.id for item in items}
        roots = self.problem.roots
        distances: dict[tuple[str, str], int] = {}
        for diagonal in self.problem.diagonals:
            pair = (roots[diagonal.input][0], roots[diagonal.output][0])
            if pair in self.diagonals and here.issuperset(pair):
                distances[pair] = max(distances.get(pair, 0), diagonal.distance_bytes)
        conflicts = {(roots[a][0], roots[b][0]) for a, b in self.problem.bank_conflicts if roots[a][0] != roots[b][0]}
        if not region.bank_bytes:
            return Rules(distances)
        inside = frozenset(pair for pair in conflicts if here.issuperset(pair))
        either = inside | {(b, a) for a, b in inside}
        # A pair that may not share a bank may not share bytes either.
        return Rules({pair: d for pair, d in distances.items() if pair not in either}, region.bank_bytes, inside)


def _in_region(item: Item, region: Region) -> Item:
    alignment = lcm(item.alignment_bytes, region.alignment_bytes)
    return replace(item, alignment_bytes=alignment, within_bank=item.within_bank and region.bank_bytes > 0)


def _usable_diagonals(problem: Problem, units: list[_Unit]) -> dict[tuple[str, str], int]:
    """(unit of the input, unit of the output) -> bytes saved at most, where the permission can be used at all.

    Both must be their units as a whole, and alone in them in the one step in which the units meet.
    """
    items = {unit.item.id: unit.item for unit in units}
    roots = problem.roots
    usable = {}
    for diagonal in problem.diagonals:
        source, result = problem.by_name[diagonal.input], problem.by_name[diagonal.output]
        above, below = items[roots[source.name][0]], items[roots[result.name][0]]
        whole = source.size_bytes == above.size_bytes and result.size_bytes == below.size_bytes
        once = above.last_step == below.first_step == source.last_step == result.first_step
        step = source.last_step
        alone = [
            request.name
            for request in problem.requests
            if roots[request.name][0] in (above.id, below.id) and request.first_step <= step <= request.last_step
        ] in ([source.name, result.name], [result.name, source.name])
        if whole and once and alone:
            usable[above.id, below.id] = min(above.size_bytes, below.size_bytes)
    return usable


def _does_not_fit(problem: Problem, search: _Search) -> DoesNotFitError:
    capacities = ", ".join(f"{region.name} {region.capacity_bytes:,} B" for region in problem.regions)
    how = "no placement exists" if search.proven else "none was found within the effort"
    return DoesNotFitError(
        f"{len(problem.requests)} buffers do not fit the memory ({capacities}): {how}",
        where=problem.regions[0].name,
        remedy="make buffers smaller or regions larger"
        + ("" if search.proven else ", or raise `steps` of `memory_search` where the target has that option"),
    )

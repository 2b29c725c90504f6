"""Rows of a constant table by their numbers: what embeds token ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.refusal import Refused
from nnkit.graph.view import GraphView, Node, ReadableGraph


@dataclass(frozen=True, eq=False)
class Embedding:
    """table: [rows, features]. ids: the float value whose whole numbers are those of rows, kept within the table."""

    table: NDArray[np.float64]
    ids: str


def read_embedding(graph: ReadableGraph, node: Node) -> Embedding:
    """A Gather of a constant table by numbers that a Cast makes of floats. Raises Refused for any other Gather."""
    table: NDArray[Any] | None = graph.constant(node.input(0))
    cast = graph.producer(node.input(1))
    if table is None or table.ndim != 2 or node.integer("axis", 0) != 0:
        raise Refused("it picks by other indices than constants, and not the rows of a constant table")
    if cast is None or not cast.is_op("Cast"):
        raise Refused("the numbers of its rows are computed")
    clip = graph.producer(cast.input(0))
    if clip is None or not clip.is_op("Clip"):
        raise Refused("the numbers of its rows are not kept within the table")
    bounds = [graph.constant(clip.input(index)) for index in (1, 2)]
    if any(bound is None for bound in bounds) or not 0 <= float(bounds[0]) <= float(bounds[1]) < table.shape[0]:  # type: ignore[arg-type]
        raise Refused("the numbers of its rows are not kept within the table")
    return Embedding(np.asarray(table, np.float64), clip.input(0))


def only_numbers_rows(graph: GraphView, node: Node) -> bool:
    """Whether a Clip or Cast does nothing but keep or make the indices that tables are read by."""
    readers = graph.consumers.get(node.output, ())
    if not readers or node.output in graph.outputs:
        return False
    if node.is_op("Clip"):
        return all(reader.is_op("Cast") and only_numbers_rows(graph, reader) for reader in readers)
    return all(reader.is_op("Gather") and reader.input(1) == node.output for reader in readers)

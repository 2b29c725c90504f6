"""What a rewrite rule is: pattern, check and rewrite, kept apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

if TYPE_CHECKING:
    import onnx_ir as ir

    from nnkit.rewrite.editor import Editor

Nodes: TypeAlias = "tuple[ir.Node, ...]"
CpuTag: TypeAlias = Literal["blocks", "carries"]
MatchT = TypeVar("MatchT")


@dataclass(frozen=True)
class Rule(Generic[MatchT]):
    """One rewrite.

    name: as recipes and reports spell it; also the name of its file.
    exact: the two graphs are equal in real arithmetic, so they may differ by float rounding alone.
    cpu: what a `_cpu` tag on a node of the pattern does. "blocks": the rule would remove or fuse that op, so it
        declines. "carries": the op is replaced one to one, and its tag goes with it.
    summary: pattern and algebra; its first line is a title.
    pattern: (editor, node) -> the nodes of the site that `node` anchors, or None. Looks at structure alone.
    check: (editor, nodes) -> what `rewrite` needs. Changes nothing. Raises Refused where the rule declines: the site
        has its pattern but not its conditions. The reason is a sentence without final period.
    rewrite: (editor, match) -> None; edits the graph and moves the tags.
    whole_numbers: whether it also holds for layers that compute integers (indices, ids), as it only moves values; an
        integer division, for instance, is no product with a factor.
    """

    name: str
    exact: bool
    cpu: CpuTag
    summary: str
    pattern: Callable[[Editor, ir.Node], Nodes | None]
    check: Callable[[Editor, Nodes], MatchT]
    rewrite: Callable[[Editor, MatchT], None]
    whole_numbers: bool = False

    @property
    def title(self) -> str:
        """The first line of the summary, without its final period."""
        return self.summary.strip().splitlines()[0].rstrip(".")


AnyRule: TypeAlias = Rule[Any]

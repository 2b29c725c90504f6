"""The recipe's word for how long the allocator may search: `memory_search: {steps: 20000, solver: false}`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from nnkit.recipe.base import RecipeModel

if TYPE_CHECKING:
    from nnkit.memory.engine import Effort


class MemorySearch(RecipeModel):
    """Budget of the allocator's search, in steps: the same recipe gives the same plan on every machine."""

    steps: int = Field(
        default=20_000,
        ge=0,
        description="Nodes of the search for addresses, after first fit. 0: first fit alone; the report then shows a "
        "gap where first fit misses the bound.",
    )
    solver: bool = Field(
        default=False,
        description="Also race the solvers of the extra `solver` (compiled search, CP-SAT) where the core leaves a "
        "gap. The plan then also depends on their versions.",
    )

    def effort(self) -> Effort:
        """The allocator's limits.

        Raises:
            ToolError: the recipe asks for the solvers, and they are not installed.
        """
        from nnkit.errors import ToolError
        from nnkit.installation import install_command
        from nnkit.memory import race
        from nnkit.memory.engine import Effort

        if self.solver and not race.is_installed():
            raise ToolError(
                "the recipe asks for the allocator's solvers, which are not installed",
                where="memory_search",
                remedy=f"{install_command('solver')}; or write memory_search: {{solver: false}}",
            )
        return Effort.of_steps(self.steps, solver=self.solver)

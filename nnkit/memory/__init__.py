"""Memory planning: lifetimes, an offset allocator, the floating-border planner, an independent checker."""

from nnkit.memory.drawing import local_memory_svg, memory_map_svg
from nnkit.memory.plan_json import plan_to_json

__all__ = ["local_memory_svg", "memory_map_svg", "plan_to_json"]

"""Memory planning: lifetimes, an offset allocator, the floating-border planner, an independent checker."""

from nnkit.memory.drawing import memory_map_svg
from nnkit.memory.layers import layer_table, layer_table_csv
from nnkit.memory.plan_json import plan_to_json

__all__ = ["layer_table", "layer_table_csv", "memory_map_svg", "plan_to_json"]

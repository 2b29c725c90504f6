"""Memory planning: lifetimes, an offset allocator, the floating-border planner, an independent checker."""

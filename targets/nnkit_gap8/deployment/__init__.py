"""Several networks in one project for GAP8."""

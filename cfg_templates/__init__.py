"""Templates of vendor files and of starter recipes; read through `importlib.resources`."""

"""`python -m nnkit` is the command `nnkit`."""

from nnkit.cli import main

main()

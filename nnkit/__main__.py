"""`python -m nnkit` is the command `nnkit`."""

from nnkit.children.search import settle

settle()

from nnkit.cli import main  # noqa: E402 - the command line and its libraries are not searched in the current folder

main()

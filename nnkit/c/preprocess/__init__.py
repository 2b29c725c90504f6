"""The recipe's `preprocess` in C, for programs on a board."""

"""The edits, one file each: changes of a network's inputs, outputs or layers that a recipe asks for by name."""

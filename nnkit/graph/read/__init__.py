"""Typed readers: what a node means, normalised, one subject a file.

A reader takes a graph (`ReadableGraph`) and a node and returns a frozen dataclass in which nothing is left to a
default or to another spelling: padding in numbers, axes counted from the front, bounds as floats. It raises `Refused`
for what it cannot read; what a target cannot do is the target's to refuse.
"""

"""The classes of files that can be tried, by name; each has a file of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

from fuzz import (
    arrays,
    builds,
    caches,
    caffe,
    children,
    compiled,
    demands,
    images,
    network_forms,
    networks,
    packages,
    recipes,
    tables,
    tflite,
    uploads,
)


@dataclass(frozen=True)
class FileClass:
    """seeds: whole files to start from, made once in a folder.

    attempt: writes a damaged one into a folder of its own and reads it as nnkit's commands do; a file that is refused
    ends in NnkitError. It is given the seeds, a generator, and that folder.
    warm_up: attempts before the first that counts, so that imports of libraries are not taken for memory of its own.
    """

    seeds: Callable[[Path], Any]
    attempt: Callable[[Any, Random, Path], None]
    warm_up: int = 5


CLASSES: Mapping[str, FileClass] = MappingProxyType(
    {
        "arrays": FileClass(arrays.seeds, arrays.attempt),
        "tables": FileClass(tables.seeds, tables.attempt),
        "builds": FileClass(builds.seeds, builds.attempt),
        "recipes": FileClass(recipes.seeds, recipes.attempt),
        "onnx": FileClass(networks.seeds, networks.attempt),
        "onnx_forms": FileClass(network_forms.seeds, network_forms.attempt),
        "tflite": FileClass(tflite.seeds, tflite.attempt),
        "caffe": FileClass(caffe.seeds, caffe.attempt),
        "caffe_published": FileClass(caffe.published_seeds, caffe.attempt),
        "caches": FileClass(caches.seeds, caches.attempt),
        "packages": FileClass(packages.seeds, packages.attempt),
        "compiled": FileClass(compiled.seeds, compiled.attempt),
        "images": FileClass(images.seeds, images.attempt),
        "demands": FileClass(demands.seeds, demands.attempt),
        "uploads": FileClass(uploads.seeds, uploads.attempt),
        "children": FileClass(children.seeds, children.attempt, warm_up=0),
    }
)

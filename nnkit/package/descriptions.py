"""What files of the artifact say of themselves, and the report's `details`: held to all else and to each other.

Read are the JSON objects of the artifact, the mapper's settings (`.cfg`), and the sizes that C headers define. No key
is known for its target: what counts are names. One name means one thing in a package:

- values at the same path, in `details` and in files of one folder, are the same;
- an object with the name of a tensor or a layer of the report has its shape, format, size, place and arithmetic;
- totals (`macs`, `weight_bytes`, `<region>_peak_bytes`, ...) are those of the report;
- files that are named are in the package, and those that wrote them name one version of nnkit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, TypeAlias

from nnkit.package.contradiction import ContradictionError, UnreadableError, hold_equal
from nnkit.package.documents import (
    ARTIFACT_FOLDER,
    DETAILS,
    Description,
    Path,
    folder_of,
    leaves,
    name_of,
    ports_of_network,
)
from nnkit.package.evidence import RECIPE, REPORT, Evidence, json_object, text_of
from nnkit.package.figures import hold_near
from nnkit.package.layer_rows import BEHIND_THE_POOL
from nnkit.package.texts import check_counts, check_settings, check_writers

_HELD = (".json", ".cfg", ".h")
_NETWORK = ".onnx"
_APART = 1e-4
"""How far figures that were computed in two ways lie apart."""
_TEXTS = (".c", ".md", ".S", ".properties", ".sh", ".yaml")
_MOST_BYTES = 1 << 24
_UNSETTLED = (None, "auto", "latest")
_FILES = ("sources", "prototxt", "caffemodel", "cfg", "model")
Facts: TypeAlias = dict[str, Any]


def is_description(name: str, size_bytes: int) -> bool:
    """Whether a file of a package says something of itself that is read."""
    return (
        name.startswith(ARTIFACT_FOLDER) and name.endswith((*_HELD, *_TEXTS, _NETWORK)) and size_bytes <= _MOST_BYTES
    )


def check_descriptions(evidence: Evidence, sizes: Mapping[str, int], read: Callable[[str], bytes]) -> int:
    """How many values stand twice. Raises ContradictionError for the first that does not agree.

    sizes: bytes of all files of the package by name. read: the content of one for which `is_description` holds.
    """
    for name, size in sizes.items():
        if name.startswith(ARTIFACT_FOLDER) and name.endswith(_HELD) and size > _MOST_BYTES:
            raise UnreadableError(name, f"it has {size:,} bytes; {_MOST_BYTES:,} are the limit")
    named = [name for name, size in sizes.items() if is_description(name, size)]
    texts = {name: text_of(name, read(name)) for name in named if not name.endswith(_NETWORK)}
    check_writers(evidence, texts)
    contents = {name: json_object(name, text.encode()) for name, text in texts.items() if name.endswith(".json")}
    contents |= {name: ports_of_network(name, read(name)) for name in named if name.endswith(_NETWORK)}
    documents = [Description(name, folder_of(name), content) for name, content in contents.items()]
    details = evidence.report.get("details")
    if details:
        documents.insert(0, Description(DETAILS, ARTIFACT_FOLDER, details))
        _check_options(evidence, details)
    count = _check_same_paths(documents)
    check_counts(evidence, texts, documents, sizes)
    known = _Known(evidence, sizes)
    for document in documents:
        count += known.check(document)
    for name, text in texts.items():
        if name.endswith(".cfg"):
            count += check_settings(name, text, documents, sizes)
        if name.endswith(".h"):
            count += known.check_header(name, text, documents)
    return count


def _check_options(evidence: Evidence, details: Mapping[str, Any]) -> None:
    """Whether `details` name the options of the recipe as the recipe does."""
    options = evidence.recipe["targets"][evidence.report["target"]] or {}
    for key, said in details.items():
        asked = options.get(key)
        if isinstance(said, Mapping | list) or isinstance(asked, Mapping | list) or asked in _UNSETTLED:
            continue
        same = str(said).lower() == str(asked).lower()
        if not same:
            hold_equal(evidence.file(REPORT), said, evidence.file(RECIPE), asked, at=f"details.{key}")


def _check_same_paths(documents: Sequence[Description]) -> int:
    """Files of one folder, and `details`, give no path two values."""
    first: dict[tuple[str, Path], tuple[str, Any]] = {}
    count = 0
    for document in documents:
        for path, value in leaves(document.content, ()):
            file, known = first.setdefault((document.folder, path), (document.file, value))
            if file != document.file:
                hold_equal(document.file, value, file, known, at=".".join(path))
                count += 1
    return count


class _Known:
    """What report and plan say of tensors, layers and the whole, by the keys that descriptions have."""

    def __init__(self, evidence: Evidence, sizes: Mapping[str, int]) -> None:
        self._evidence = evidence
        self._sizes = sizes
        self._networks = {name: _Known(each, {}) for name, each in evidence.networks.items()}
        self._tensors = {} if evidence.networks else _tensors(evidence)
        self._layers = (
            {} if evidence.networks else {layer["name"]: _layer(layer) for layer in evidence.report["layers"]}
        )
        self._pictures = _pictures(evidence.recipe)
        self._totals = _totals(evidence) | _weights(sizes)

    def check(self, document: Description) -> int:
        """How many values of a document are known. Raises ContradictionError for the first that is another."""
        ports = document.folder == ARTIFACT_FOLDER and not self._networks
        for key in ("inputs", "outputs"):
            said = document.content.get(key)
            if ports and said is not None:
                if not isinstance(said, list) or not all(map(name_of, said)):
                    raise UnreadableError(document.file, f"{key} is no list of tensors with names")
                names = [port["name"] for port in self._evidence.report[key]]
                told = [name_of(each) for each in said]
                hold_equal(document.file, told, self._evidence.file(REPORT), names, at=key)
        return self._check(document, document.content, "", whole=True)

    def _check(self, document: Description, value: Any, at: str, *, whole: bool) -> int:
        """whole: the value is of the network, not of a part of it."""
        if isinstance(value, list):
            count = self._check_built(document.file, value, at)
            for i, each in enumerate(value):
                count += self._of(each)._check(document, each, f"{at}[{i}]", whole=False)
            return count
        if not isinstance(value, Mapping):
            return 0
        name, count = name_of(value), 0
        for known in (self._tensors.get(name or ""), self._layers.get(name or "")):
            count += self._hold(document, value, known or {}, at)
        if whole:
            count += self._hold(document, value, self._totals, at)
        _check_cycles(document.file, value, at)
        for key, inner in value.items():
            inside = f"{at}.{key}" if at else str(key)
            if key in _FILES:
                self._check_files(document, inner, inside)
            if isinstance(inner, Mapping) and "color" in inner:
                count += self._hold_picture(document, inner, name or "", inside)
            count += self._check(document, inner, inside, whole=whole and key not in self._layers)
        return count

    def _check_built(self, file: str, rows: Sequence[Any], at: str) -> int:
        """The row of choices that is the build itself, measured on the same inputs, has its distances.

        Of several rows with its layers it is the last: those before have the weights as they came, uncorrected.
        """
        built = [i for i, each in enumerate(rows) if isinstance(each, Mapping) and each.get("built") is True]
        if not built or self._networks:
            return 0
        said, at = rows[built[-1]], f"{at}[{built[-1]}]"
        floats = self._evidence.report["verify"]["float_vs_program"]
        keys = [
            key for key in ("cosine", "sqnr_db", "max_abs") if key in said and said.get("images") == floats["inputs"]
        ]
        for key in keys:
            hold_near(file, said[key], floats[key], f"{at}.{key}", "in verify.float_vs_program", rounding=_APART)
        return len(keys)

    def _hold_picture(self, document: Description, said: Mapping[str, Any], name: str, at: str) -> int:
        """What is done to the pixels of an input, against the recipe."""
        asked = self._pictures.get(name, {})
        known = {key: asked.get(key) for key in ("color", "flip", "crop", "mean", "scale")}
        for key, value in known.items():
            told = said.get(key)
            if value is None or key not in said:
                continue
            if isinstance(value, list) and len(value) == 1 and isinstance(told, list):
                value = value * len(told)  # one number for all channels
            hold_equal(document.file, told, self._evidence.file(RECIPE), value, at=f"{at}.{key}")
        return len(known)

    def _of(self, value: Any) -> _Known:
        """What is known where a document speaks of one network of a deployment."""
        return self._networks.get(name_of(value) or "", self)

    def _hold(self, document: Description, said: Mapping[str, Any], known: Facts, at: str) -> int:
        count = 0
        for key, value in known.items():
            if key not in said:
                continue
            path = f"{at}.{key}" if at else key
            if key == "format" and isinstance(said[key], Mapping):
                count += self._hold(document, said[key], {**_form(value), **known}, path)
                continue
            told = _plain(key, said[key])
            if told != value and not (key == "shape" and _is_other_form(told, value, document.content)):
                hold_equal(document.file, told, self._evidence.file(REPORT), value, at=path)
            count += 1
        return count

    def _check_files(self, document: Description, named: Any, at: str) -> None:
        for file in [named] if isinstance(named, str) else named if isinstance(named, list) else []:
            if isinstance(file, str) and not any(name.endswith(f"/{file}") for name in self._sizes):
                raise ContradictionError(document.file, f"{at} names {file!r}, which is not there")

    def check_header(self, name: str, text: str, documents: Sequence[Description]) -> int:
        """Sizes that a header defines, against the JSON beside it, and of its tensors: how many are known."""
        stem = PurePosixPath(name).stem
        known = self._networks.get(stem, self)
        facts = {key.upper(): value for key, value in known._totals.items()}
        for document in documents:
            if document.folder == folder_of(name) and document.stem == stem:
                facts |= {
                    path[-1].upper(): it for path, it in leaves(document.content, ()) if not _is_part(path, document)
                }
        for tensor, own in known._tensors.items():
            prefix = re.sub(r"\W", "_", tensor).upper()
            facts |= {f"{prefix}_{key.upper()}": value for key, value in own.items()}
        count = 0
        for key, digits in re.findall(rf"^#define {re.escape(stem.upper())}_(\w+) (-?\d+)\b", text, re.MULTILINE):
            if key in facts and isinstance(facts[key], int):
                hold_equal(name, int(digits), self._evidence.file(REPORT), facts[key], at=f"{stem.upper()}_{key}")
                count += 1
        return count


def _is_part(path: Path, document: Description) -> bool:
    """Whether a path leads through a list: what it says is of a part of the network."""
    value: Any = document.content
    for key in path:
        if not isinstance(value, Mapping):
            return True
        value = value.get(key)
    return False


def _tensors(evidence: Evidence) -> dict[str, Facts]:
    report, plan = evidence.report, evidence.plan
    tensors: dict[str, Facts] = {}
    for layer in report["layers"]:
        tensors[layer["output"]] = {"shape": layer["shape"], "format": layer["formats"]["output"]}
    for port in (*report["inputs"], *report["outputs"]):
        keys = ("shape", "format", "bits", "signed", "frac", "scale", "zero_point")
        tensors[port["name"]] = {key: port[key] for key in keys if key in port}
    for name, facts in tensors.items():
        values = math.prod(facts["shape"])
        facts |= {"values": values, "elements": values, "count": values}
        if name in plan["tensors"]:
            place = plan["tensors"][name]
            buffer = plan["buffers"][place["buffer"]]
            facts["bytes"] = place["size_bytes"]
            facts[f"{buffer['region']}_offset"] = buffer["offset_bytes"] + place["offset_bytes"]
    return tensors


def _form(text: str) -> Facts:
    """The parts of a fixed-point format: `u8.7`."""
    form = re.fullmatch(r"([su])(\d+)\.(-?\d+)", text)
    return {} if form is None else {"bits": int(form[2]), "frac": int(form[3]), "signed": form[1] == "s"}


def _pictures(recipe: Mapping[str, Any]) -> dict[str, Facts]:
    """What the recipe asks for, by input. Presets and divisors are worked out elsewhere."""
    inputs = (recipe.get("model") or {}).get("inputs") or {}
    asked = {name: each.get("preprocess") or {} for name, each in inputs.items()}
    return {
        name: {key: each.get(key) for key in each if key not in ("mean", "scale") or not each.get("std")}
        for name, each in asked.items()
        if not each.get("preset")
    }


def _layer(layer: Mapping[str, Any]) -> Facts:
    return {key: layer[key] for key in ("op", "placement", "macs", "weight_bytes", "output") if key in layer} | {
        "kind": layer["op"]
    }


def _weights(sizes: Mapping[str, int]) -> Facts:
    """Bytes of the weights, where the artifact has one file of them."""
    files = [size for name, size in sizes.items() if re.fullmatch(rf"{ARTIFACT_FOLDER}(\w+_)?weights\.bin", name)]
    return dict.fromkeys(("weight_bytes", "weights_bytes"), files[0]) if len(files) == 1 else {}


def _totals(evidence: Evidence) -> Facts:
    report = evidence.report
    totals: Facts = {key: report[key] for key in ("macs",) if key in report}
    for name, use in report["memory"].items():
        totals |= {f"{name}_{key}": use[key] for key in ("peak_bytes", "capacity_bytes", "lower_bound_bytes")}
        totals |= dict.fromkeys((f"{name}_bytes", f"{name}_pool_bytes"), _pool_bytes(evidence.plan, name))
    if "planner" in report:
        weights = {buffer["region"] for buffer in evidence.plan["buffers"].values() if buffer["kind"] == "weights"}
        totals["flash_bytes"] = report["planner"]["weight_bytes"]
        totals["ram_bytes"] = sum(use["peak_bytes"] for name, use in report["memory"].items() if name not in weights)
    return totals


def _pool_bytes(plan: Mapping[str, Any], region: str) -> int:
    """The end of what the layers use of a region."""
    inside = [it for it in plan["buffers"].values() if it["region"] == region and it["kind"] not in BEHIND_THE_POOL]
    return max((it["offset_bytes"] + it["size_bytes"] for it in inside), default=0)


def _is_other_form(said: Any, shape: Sequence[int], whole: Mapping[str, Any]) -> bool:
    """Whether a shape is the report's with the batch before it, or with channels last."""
    forms = [list(shape), [*shape[1:], *shape[:1]]]
    return said in [*forms, *([whole.get("batch", 1), *form] for form in forms)]


def _plain(key: str, said: Any) -> Any:
    """A value in the form in which the report has it."""
    match said:
        case {"name": str(name)} if key == "output":
            return name
        case int() | float() if key in ("scale", "zero_point") and not isinstance(said, bool):
            return [said]
    return said


def _check_cycles(file: str, said: Mapping[str, Any], at: str) -> None:
    """Whether cycles are those of the layers beside them, and milliseconds those cycles at the clock beside them."""
    cycles, layers, clock_mhz = said.get("cycles"), said.get("layers"), said.get("clock_mhz")
    if not isinstance(cycles, int):
        return
    if isinstance(layers, Mapping) and all(each is None or isinstance(each, int) for each in layers.values()):
        total = sum(each for each in layers.values() if each is not None)
        hold_equal(file, cycles, "the sum of its layers", total, at=f"{at}.cycles")
    if isinstance(clock_mhz, int | float) and "milliseconds" in said:
        time = cycles / clock_mhz / 1e3
        if not math.isclose(said["milliseconds"], time, rel_tol=1e-3, abs_tol=1e-5):
            told = said["milliseconds"]
            raise ContradictionError(file, f"{at}.milliseconds is {told}; {cycles:,} cycles take {time:.6g}")

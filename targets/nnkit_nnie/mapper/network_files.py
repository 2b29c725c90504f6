"""What the mapper gets of one network: prototxt, caffemodel, cfg and the data that it names; and running it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnkit.inputs import calibration_files, preprocess_by_input
from nnkit.preprocess.files import spread
from nnkit.recipe import Recipe
from nnkit.samples import Sample
from nnkit.target import Deployment
from nnkit_nnie.chips import CHIPS
from nnkit_nnie.custom_globs import check_custom
from nnkit_nnie.lowered import NnieLowered
from nnkit_nnie.mapper.caffe_pair import CaffePair
from nnkit_nnie.mapper.calibration_images import check_referenced, count_note, write_inputs
from nnkit_nnie.mapper.cfg import CfgInput, net_type, render_cfg
from nnkit_nnie.mapper.input_settings import InputSettings, settings_of
from nnkit_nnie.mapper.run import MapperRun, find_mapper, no_mapper, run_mapper
from nnkit_nnie.options import NnieOptions
from nnkit_nnie.parts import Part, settings_of_part

_ROI = 1


@dataclass(frozen=True, eq=False)
class NetworkFiles:
    """One network as written: in the artifact itself, or in a folder of its own where there are several.

    folder: in the artifact; empty for the artifact itself. instruction_name: of the compiled network, without `.wk`.
    """

    part: Part
    folder: str
    stem: str
    instruction_name: str
    settings: tuple[InputSettings, ...]

    @property
    def pair(self) -> CaffePair:
        """The network's layers as Caffe has them."""
        return self.part.pair

    @property
    def prototxt(self) -> str:
        """The network's layers, seen from the artifact."""
        return self._inside(f"{self.stem}.prototxt")

    @property
    def caffemodel(self) -> str:
        """Its weights."""
        return self._inside(f"{self.stem}.caffemodel")

    @property
    def cfg(self) -> str:
        """The mapper's only argument; paths in it are relative to its folder."""
        return self._inside(f"{self.stem}.cfg")

    @property
    def wk(self) -> str:
        """What the mapper makes of them."""
        return self._inside(f"{self.instruction_name}.wk")

    def _inside(self, name: str) -> str:
        return f"{self.folder}/{name}" if self.folder else name


def check_cfg(recipe: Recipe, lowered: NnieLowered, options: NnieOptions) -> None:
    """Raise RecipeError for what `write_network` would refuse: of inputs, keys of the cfg, files it names."""
    check_custom(options.custom, lowered.network.layers)
    settings = settings_of(recipe, lowered.network, options)
    if options.image_list == "reference":
        check_referenced(preprocess_by_input(recipe, lowered.model))
    given = [path.existing_file("the ROI coordinates").name for path in options.roi_coordinate_files]
    if options.gfpq_param_file is not None:
        options.gfpq_param_file.existing_file("the GFPQ parameters")
    for part in lowered.parts:
        inputs = [CfgInput(each, "", "") for each in settings_of_part(part, settings)]
        roi_files = given if _names_regions(part) else []
        render_cfg(part.network, inputs, options, stem=part.name, roi_files=roi_files)


def _names_regions(part: Part) -> bool:
    """Whether the recipe's ROI files belong to this part: where there are several, to that with the layers."""
    return not part.name or net_type(part.network) == _ROI


def write_network(
    part: Part,
    settings: tuple[InputSettings, ...],
    samples: Sequence[Sample],
    deployment: Deployment[NnieLowered],
    options: NnieOptions,
    stem: str,
    artifact: Path,
) -> tuple[NetworkFiles, list[str]]:
    """Write one network; returns its files and notes. samples: its inputs for the mapper's calibration.

    Raises RecipeError for what cannot be written.
    """
    place = artifact / part.name
    place.mkdir(exist_ok=True)
    name, caffe = part.named(deployment.recipe.name), part.pair.caffe
    files = NetworkFiles(part, part.name, part.named(stem), part.named(options.instruction_name), settings)
    (artifact / files.prototxt).write_text(caffe.prototxt(name), encoding="utf-8")
    (artifact / files.caffemodel).write_bytes(caffe.caffemodel(name))
    note = _write_cfg(files, samples, _referenced(part, deployment, options), options, place)
    notes = [*part.pair.notes, *([note] if note is not None else [])]
    return files, [f"{part.name}: {text}" if part.name else text for text in notes]


def _referenced(
    part: Part, deployment: Deployment[NnieLowered], options: NnieOptions
) -> Mapping[str, list[Path]] | None:
    """The user's own files where the mapper is to read them; None where pictures are copied.

    Warped images are in no file of the user's.
    """
    if options.image_list != "reference" or part.name == "net":
        return None
    recipe, model = deployment.recipe, deployment.lowered.model
    check_referenced(preprocess_by_input(recipe, model))
    return {name: spread(paths, options.image_count) for name, paths in calibration_files(recipe, model).items()}


def _write_cfg(
    files: NetworkFiles,
    samples: Sequence[Sample],
    referenced: Mapping[str, list[Path]] | None,
    options: NnieOptions,
    place: Path,
) -> str | None:
    """The cfg and the files that it names; returns a note on the number of images."""
    network = files.part.network
    inputs = write_inputs(files.settings, samples, referenced, place)
    roi_files = []
    if _names_regions(files.part):
        for index, path in enumerate(options.roi_coordinate_files):
            name = f"roi_{index}.txt"
            shutil.copyfile(path.existing_file("the ROI coordinates"), place / name)
            roi_files.append(f"./{name}")
    if options.gfpq_param_file is not None:
        shutil.copyfile(options.gfpq_param_file.existing_file("the GFPQ parameters"), place / "gfpq_param.txt")
    named = options.model_copy(update={"instruction_name": files.instruction_name})
    text = render_cfg(network, inputs, named, stem=f"./{files.stem}", roi_files=roi_files)
    (place / f"{files.stem}.cfg").write_text(text, encoding="utf-8")
    return count_note(len(samples))


def compile_network(
    files: NetworkFiles, options: NnieOptions, artifact: Path, say: Callable[[str], None] = lambda text: None
) -> MapperRun | None:
    """Run the mapper in the network's folder, where it is found and wanted. say: called with each of its stages."""
    program = find_mapper(options) if options.mapper.run else None
    if program is None:
        return None
    segments = files.part.network.segments
    title = " ".join(filter(None, [Path(program).name, files.part.name]))
    say(title)
    return run_mapper(
        program,
        artifact / files.folder,
        f"{files.stem}.cfg",
        files.instruction_name,
        (sum(1 for segment in segments if segment.placement == "npu"), len(segments)),
        options.mapper.timeout_s,
        lambda stage: say(f"{title}, {stage}"),
    )


def described(files: NetworkFiles, compiled: MapperRun | None, options: NnieOptions) -> dict[str, Any]:
    """The network's entry of `build.json`."""
    why = (
        no_mapper(CHIPS[options.chip]) if options.mapper.run else "never compiled: the recipe says mapper.run: false"
    )
    return {
        "name": files.part.name,
        "folder": files.folder,
        "stem": files.stem,
        "inputs": list(files.part.network.graph.inputs),
        "blobs": dict(files.pair.blobs),
        "layers": {name: list(written) for name, written in files.pair.layers.items()},
        "compiled": None
        if compiled is None
        else {
            "mapper": compiled.program,
            "wk": compiled.wk_path.name,
            "wk_bytes": compiled.wk.size_bytes,
            "wk_segments": compiled.wk.segments,
            "stages": list(compiled.stages),
            "warnings": list(compiled.warnings),
        },
        "not_compiled": why if compiled is None else "",
    }

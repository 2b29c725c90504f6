"""Stages on the float graph: import, restructure, lower, calibrate."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nnkit.calibrate.stats import CalibrationStats, ValueRange
from nnkit.errors import LayersNotTakenError
from nnkit.graph import Model
from nnkit.recipe import Calibration, Recipe
from nnkit.report.progress import Step
from nnkit.stages.caching import Codec, StageCall, cached, object_codec
from nnkit.stages.given_files import needs_ranges
from nnkit.stages.types import Build, Imported, Restructured, returned
from nnkit.target import Lowered, check_target_rules

if TYPE_CHECKING:
    from nnkit.importers import CustomDefinition
    from nnkit.recipe.restructure import RestructureEntry


def import_model(build: Build) -> Imported:
    """Read the recipe's model; cached by the files' content (external data included)."""
    from nnkit import importers
    from nnkit.cache import installed_version
    from nnkit.importers import (
        ImportOptions,
        TagGlobs,
        caffe_digest,
        import_caffe,
        import_model_file,
        model_file_digest,
    )
    from nnkit.recipe.restructure import entry_name

    section = build.recipe.model
    path = section.path.existing_file("the model")
    weights = section.weights.existing_file("the model's weights") if section.weights is not None else None
    tags, tflite = build.recipe.tags_for(build.key), section.format == "tflite"
    channels_last = [name for name, spec in section.inputs.items() if spec.layout == "nhwc"]
    shapes = {name: spec.shape for name, spec in section.inputs.items() if spec.shape is not None}
    hp = () if isinstance(tags.hp, str) else tags.hp  # `auto`: `choose_precision` decides after calibration
    custom, custom_digests = _custom_layers(build.recipe, trusted=build.trusted)
    several_images = any(entry_name(e) == "replace_input" for e in build.recipe.restructure_for(build.key) or ())

    def where(kind: str, index: int) -> str:
        return build.recipe.where_override(build.key, "tags", kind, index)

    def input_where(name: str) -> str:
        return build.recipe.where("model", "inputs", name, "shape")

    def compute(step: Step) -> Imported:
        globs = TagGlobs(hp=hp, cpu=tags.cpu, where=where)
        if weights is not None:
            result = import_caffe(
                path, weights, inputs=shapes, tag_globs=globs, input_where=input_where, custom_layers=custom
            )
        else:
            options = ImportOptions(
                inputs=shapes,
                simplify=section.simplify,
                tag_globs=globs,
                input_where=input_where,
                any_batch=several_images,
                channels_last=channels_last,
            )
            result = import_model_file(path, options, tflite=tflite)
        if section.dequantize:
            from nnkit.quantize.affine.dequantized import dequantized

            note = "the network was quantised already: the numbers that its integers stand for are quantised anew"
            return Imported(dequantized(result.model), (*result.notes, note), result.left_out)
        return Imported(result.model, result.notes, result.left_out)

    call = StageCall(
        "import",
        [model_file_digest(path, tflite=tflite) if weights is None else caffe_digest(path, weights)],
        {"shapes": {k: list(v) for k, v in shapes.items()}, "simplify": section.simplify, "hp": hp, "cpu": tags.cpu}
        | {"several_images": several_images, "custom_layers": custom_digests, "channels_last": channels_last}
        | {"dequantize": section.dequantize},
        [importers, "nnkit.quantize.affine", "nnkit.caffe", "nnkit.custom_ops", "nnkit.graph", "nnkit.reading"],
        {name: installed_version(name) for name in ("onnx", "onnxsim", "onnxruntime")},
    )
    imported = cached(build, call, object_codec(), compute)
    for line in imported.left_out_lines:
        build.progress.say(line)
    for note in imported.notes:
        build.progress.note(note)
    return imported


def _custom_layers(recipe: Recipe, *, trusted: bool) -> tuple[dict[str, CustomDefinition], dict[str, Any]]:
    """The definitions of the user's own layers, by glob, and what a cache key has to know of them.

    trusted: their Python and C are run; otherwise only what the user's environment trusts.
    """
    from nnkit.custom_ops import trust_source
    from nnkit.importers import CustomDefinition, import_onnx
    from nnkit.reading import read_text
    from nnkit.trust import refuse_sources_in_ci

    definitions, digests = {}, {}
    for glob, written in recipe.model.custom_layers.items():
        texts = {
            kind: read_text(
                path.existing_file(f"the {kind} file"), what=f"the {kind} file", remedy="save it as UTF-8"
            )
            for kind, path in (("Python", written.python), ("C", written.c))
            if path is not None
        }
        if texts and trusted:
            refuse_sources_in_ci()
            for text in texts.values():
                trust_source(text)
        model = import_onnx(written.onnx.existing_file("the layer's network")).model if written.onnx else None
        definitions[glob] = CustomDefinition(
            written.shapes,
            model,
            written.function or "",
            texts.get("Python", ""),
            texts.get("C", ""),
            recipe.where("model", "custom_layers", glob),
        )
        digests[glob] = [written.shapes, written.function, texts, model.digest if model is not None else ""]
    return definitions, digests


def written_steps(build: Build) -> list[tuple[int, RestructureEntry]]:
    """The rewrites and edits of the recipe, each with its place in `restructure`; `default` is written out."""
    from nnkit.recipe.restructure import DEFAULT_SET

    chosen = build.recipe.restructure_for(build.key)
    if chosen is None:
        chosen = (DEFAULT_SET,)
    steps: list[tuple[int, RestructureEntry]] = []
    for index, entry in enumerate(chosen):
        if entry != DEFAULT_SET:
            steps.append((index, entry))
            continue
        steps += [(index, name) for name in build.target.default_rules if name not in chosen]
    return steps


def restructure(build: Build, imported: Imported, *, compare: bool = True) -> Restructured:
    """The recipe's rewrites and edits (or the target's default set), then the target's legalisation.

    compare: by ONNX Runtime, after each rewrite. Without it the network is good for being looked at alone, and is
    not kept for later runs.
    """
    import onnxruntime

    from nnkit import rewrite
    from nnkit.recipe.restructure import entry_name

    legalisation = build.target.legalisation(build.options)
    check_target_rules(build.key, (*build.target.default_rules, *legalisation), rewrite.known_names())
    written = written_steps(build)
    entries = [entry for _, entry in written]
    names = {entry_name(entry) for entry in entries}
    entries += [name for name in legalisation if name not in names]

    def where(index: int) -> str:
        place = written[index][0] if index < len(written) else index
        return build.recipe.where_override(build.key, "restructure", place)

    steps = rewrite.resolve_steps(entries, where=where)

    def compute(step: Step) -> Restructured:
        done = rewrite.restructure_steps(imported.model, steps, check_inputs=None if compare else [])
        return Restructured(done.model, done.log, done.reference)

    call = StageCall(
        "restructure",
        [imported.model.digest],
        {"rules": [rewrite.entry_key(entry) for entry in entries]},
        [rewrite, "nnkit.graph", "nnkit.custom_ops", "nnkit.importers", "nnkit.caffe"],
        {"onnxruntime": onnxruntime.__version__},
    )
    restructured = cached(build, call, object_codec(), compute, keep=compare)
    for entry in restructured.log.entries:
        for move in entry.tags:
            build.progress.note(f"{entry.name}: {move}")
    return restructured


def lower(build: Build, restructured: Restructured) -> Lowered:
    """The network as the target runs it; what it cannot run is refused here, before anything is measured.

    Raises LayersNotTakenError with all layers that are refused, and what has been found to do about them.
    """
    from nnkit.stages.refusal_plan import with_plan

    try:
        with build.progress.stage("lower") as step:
            made = build.target.lower(restructured.model, restructured.log, build.options)
            lowered = returned(build, "lower", made, Lowered)
            build.target.check_recipe(build.recipe, lowered, build.options)
            count = len(lowered.segments)
            step.detail = f"{count} segment{'s' if count != 1 else ''}"
            return lowered
    except LayersNotTakenError as error:
        raise with_plan(error, build, restructured) from error


def calibration_settings(build: Build) -> Calibration:
    """The recipe's, with the target's method where it names none."""
    settings = build.recipe.calibration_for(build.key)
    method = settings.method or build.target.calibration_method(build.options)
    return settings.model_copy(update={"method": method})


def calibrate(build: Build, lowered: Lowered, verified: Model | None = None) -> CalibrationStats:
    """Observe the recipe's images in the network as the target runs it, or read the pinned table.

    Where the build's numbers do not rest on ranges, the inputs of verification stand in for missing images.
    verified: the network that verification draws inputs for, where that is not the lowered one.
    """
    import onnxruntime
    import PIL

    from nnkit import calibrate as package
    from nnkit import preprocess as preprocess_package
    from nnkit.calibrate import read_table, stats_from_bytes
    from nnkit.calibrate.checkpoint import Checkpoint
    from nnkit.calibrate.parts import calibrate_in_parts
    from nnkit.calibrate.run import Naming
    from nnkit.file_digest import file_digest
    from nnkit.inputs import calibration_files, has_calibration, preprocess_by_input
    from nnkit.preprocess.files import named

    settings, model = calibration_settings(build), lowered.model
    if settings.table is not None:
        with build.progress.stage("calibrate") as step:
            step.detail = "pinned table"
            return read_table(settings.table.existing_file("the calibration table"), model)
    if not has_calibration(build.recipe, settings, model) and not needs_ranges(build, lowered):
        return _observe_verification(build, model, verified or model)
    files = calibration_files(build.recipe, model)
    preprocess = preprocess_by_input(build.recipe, model)
    base = build.recipe.model.path.folder
    names = {name: [named(path, base) for path in paths] for name, paths in files.items()}

    call = StageCall(
        "calibrate",
        [model.digest, *(file_digest(path) for paths in files.values() for path in paths)],
        {
            "preprocess": repr(preprocess),
            "settings": settings.model_dump(mode="json"),
            "files": {name: len(paths) for name, paths in files.items()},  # which digest belongs to which input
            "names": names if settings.bad_images else {},  # the result has those of what it left out
        },
        [package, preprocess_package, "nnkit.custom_ops", "nnkit.graph"],
        {"onnxruntime": onnxruntime.__version__, "pillow": PIL.__version__},
        total=max((len(paths) for paths in files.values()), default=None),
    )

    def compute(step: Step) -> CalibrationStats:
        resumed: list[int] = []

        def done(images: int) -> None:
            if not resumed:  # it first tells what a run before has done
                resumed.append(images)
                step.skip(images)
            else:
                step.advance(images)

        stats = calibrate_in_parts(
            model,
            files,
            preprocess,
            settings,
            Naming(base, build.recipe.where("model", "inputs")),
            replace(build.executor, dashboard=build.progress.say_dashboard),
            checkpoint=Checkpoint(build.cache, replace(call, stage="calibrate-checkpoint").key(build)),
            progress=done,
        )
        step.detail = f"{stats.images} images" + (f", {len(stats.skipped)} unreadable" if stats.skipped else "")
        if sum(resumed):
            step.detail += f", {sum(resumed)} of them by the interrupted run"
        return stats

    codec = Codec(_encode_stats, lambda files: stats_from_bytes(files["stats"]))
    return cached(build, call, codec, compute)


def _observe_verification(build: Build, model: Model, verified: Model) -> CalibrationStats:
    """What the network computes on the first inputs that it is verified on, drawn ones where there are no images."""
    from nnkit.calibrate import calibrate as observe
    from nnkit.calibrate import sources_of
    from nnkit.drawn_inputs import COUNT
    from nnkit.inputs import samples_or_drawn

    with build.progress.stage("calibrate") as step:
        samples = samples_or_drawn(build.recipe, verified)[:COUNT]
        which = "1 input of verification says" if len(samples) == 1 else f"{len(samples)} inputs of verification say"
        step.detail = f"not needed; {which} how large values are"
        return replace(observe(model, sources_of(model, samples), {}), images=0)


def calibrate_if_possible(build: Build, lowered: Lowered) -> tuple[CalibrationStats, bool]:
    """For the dry run: real statistics where the recipe has images, else unit ranges; whether formats are known."""
    from nnkit.inputs import has_calibration

    if has_calibration(build.recipe, calibration_settings(build), lowered.model):
        return calibrate(build, lowered), True
    unit = ValueRange(-1.0, 1.0, -1.0, 1.0)
    proto = lowered.model.proto()
    values = [i.name for i in proto.graph.input] + [name for node in proto.graph.node for name in node.output]
    stats = CalibrationStats(dict.fromkeys(values, unit), "none", 0, lowered.model.digest)
    return stats, not needs_ranges(build, lowered)


def _encode_stats(stats: CalibrationStats) -> dict[str, bytes]:
    from nnkit.calibrate import stats_to_bytes

    return {"stats": stats_to_bytes(stats)}

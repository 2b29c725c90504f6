"""`nnkit evaluate`: verification scores of descriptors, wherever they were computed."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from nnkit.commands.common import print_json
from nnkit.errors import UsageError
from nnkit.terminal import print_line

if TYPE_CHECKING:
    from nnkit.verify.features import Features
    from nnkit.verify.tasks.verification import MetricName, Pairs


def evaluate_command(
    path: Path,
    *,
    pairs: Path | None,
    by_folder: bool,
    metric: str,
    false_positive_rate: float,
    against: Path | None,
    ranges: Path | None,
    json: bool,
) -> None:
    """Print what was asked for: recall and accuracy over pairs, ranges by dimension, distance from other features."""
    from nnkit.verify import features as module

    if pairs is not None and by_folder:
        raise UsageError("--pairs and --by-folder both say which pairs there are", remedy="keep one of the two")
    features = module.read_features(path)
    other = module.read_features(against) if against is not None else None
    span = module.feature_ranges(features)
    data: dict[str, Any] = {
        "features": str(path),
        "images": len(features.names),
        "dimensions": int(features.values.shape[1]),
        "vmin": float(span.vmin.min()),
        "vmax": float((span.vmin + span.vdiff).max()),
        "largest_vdiff": float(span.vdiff.max()),
    }
    if ranges is not None:
        module.write_ranges(span, ranges)
        data["ranges"] = str(ranges)
    if pairs is not None or by_folder:
        chosen = _pairs(features, pairs)
        measure: MetricName = "l2" if metric == "l2" else "cosine"
        data["verification"] = _scores(features, chosen, measure, false_positive_rate)
        if other is not None:
            data["verification_against"] = _scores(
                _in_order_of(features, other), chosen, measure, false_positive_rate
            )
    if other is not None:
        gap = module.feature_distance(features, other)
        data["distance"] = {
            "against": str(against),
            "images": gap.images,
            "cosine_mean": gap.cosine_mean,
            "cosine_min": gap.cosine_min,
            "max_abs": gap.largest,
        }
    if json:
        print_json(data)
        return
    _print(data)


def _pairs(features: Features, file: Path | None) -> Pairs:
    from nnkit.verify.tasks.labels import read_pairs
    from nnkit.verify.tasks.verification import all_pairs

    if file is not None:
        return read_pairs(file, features.names)
    return all_pairs([PurePath(name).parent.as_posix() for name in features.names])


def _in_order_of(features: Features, other: Features) -> Features:
    """The other run's features in the first one's order. Raises UsageError where some are missing."""
    from nnkit.verify.features import Features

    index = {name: i for i, name in enumerate(other.names)}
    lacking = [name for name in features.names if name not in index]
    if lacking:
        raise UsageError(
            f"{len(lacking)} images have no features there, the first is {lacking[0]!r}",
            where="--against",
            remedy="give features of the same images, or leave out the pairs",
        )
    return Features(features.names, other.values[[index[name] for name in features.names]])


def _scores(features: Features, pairs: Pairs, metric: MetricName, rate: float) -> dict[str, Any]:
    from nnkit.verify.tasks.verification import pair_scores, verify_pairs

    result = verify_pairs(pair_scores(features.values, pairs, metric), pairs.same, rate)
    if result.recall != result.recall:
        raise UsageError(
            "there are no pairs of one person, or none of two",
            where="--pairs",
            remedy="verification needs both kinds of pairs",
        )
    return {
        "same_pairs": int(pairs.same.sum()),
        "different_pairs": int((~pairs.same).sum()),
        "false_positive_rate": rate,
        "recall": result.recall,
        "accuracy": result.accuracy,
        "threshold": result.threshold if metric == "cosine" else -result.threshold,
    }


def _print(data: dict[str, Any]) -> None:
    print_line(f"{data['features']}: {data['images']} vectors of {data['dimensions']}")
    print_line(f"  values   {data['vmin']:.6g} to {data['vmax']:.6g}, widest dimension {data['largest_vdiff']:.6g}")
    if "ranges" in data:
        print_line(f"  ranges   vmin and vdiff of every dimension -> {data['ranges']}")
    for key, title in (("verification", "recall"), ("verification_against", "other")):
        if key in data:
            scores = data[key]
            print_line(
                f"  {title:<9}{scores['recall']:.4f} at a false-positive rate of {scores['false_positive_rate']:g} "
                f"(threshold {scores['threshold']:.6g}), accuracy {scores['accuracy']:.4f}; "
                f"{scores['same_pairs']:,} pairs of one, {scores['different_pairs']:,} of two"
            )
    if "distance" in data:
        gap = data["distance"]
        print_line(
            f"  against  {gap['against']}: cosine {gap['cosine_mean']:.6f} on average, {gap['cosine_min']:.6f} at "
            f"least, largest difference {gap['max_abs']:.6g}, {gap['images']} images"
        )

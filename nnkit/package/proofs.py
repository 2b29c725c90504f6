"""What a package says is proven of it, checked again from the package alone: `nnkit package verify --proofs`.

- All that it says twice: manifest, provenance and bill of materials against recipe and report (`agreement.py`), files
  against the SHA-256 that the report has of them, the table of layers against report and plan (`layer_rows.py`).
- Figures that bound or repeat each other (`figures.py`).
- The memory plan (`plan_proof.py`), the verdict (`verdicts.py`) and the accumulators (`accumulator_proof.py`).

A deployment's package has one memory plan and one table of layers, and all of this of each of its networks too.
That the whole is not invented consistently is for a signature to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nnkit.errors import GateFailedError, UsageError, UserFileError
from nnkit.package.accumulator_proof import check_accumulators, is_bounded
from nnkit.package.agreement import check_derived, check_files, check_recipe
from nnkit.package.archive import VerifyResult
from nnkit.package.contradiction import PackageFileError, UnreadableError
from nnkit.package.evidence import PLAN, REPORT, Evidence, read_evidence
from nnkit.package.figures import check_figures
from nnkit.package.layer_rows import check_joint_layers, check_layers
from nnkit.package.manifest import FORMAT, MANIFEST_NAME, FileRecord
from nnkit.package.plan_proof import check_joint_plan, check_plan, check_use
from nnkit.package.provenance import PROVENANCE_NAME, SBOM_NAME
from nnkit.package.verdicts import check_gates, check_networks, check_runs

_SHAPELESS = (ValueError, TypeError, KeyError, AttributeError, IndexError, ArithmeticError, RecursionError)


@dataclass(frozen=True)
class ProofResult:
    """checked: what was, in words. accumulators: number of other layers by what the report says of their proof.

    unproven: what a signature alone can vouch for.
    """

    checked: tuple[str, ...]
    accumulators: Mapping[str, int]
    unproven: tuple[str, ...]


def check_proofs(verified: VerifyResult, check_times: Callable[[Evidence], str] = lambda evidence: "") -> ProofResult:
    """Check the proofs of a package that is intact.

    check_times: holds times to the figures that they follow from, as their target does; says why it could not.

    Raises GateFailedError for the first that does not hold, with the file that contradicts; UserFileError for a
    package of an older format, which does not say enough to be held to it.
    """
    manifest = verified.manifest
    if manifest.format != FORMAT:
        raise UserFileError(
            f"the package has format {manifest.format}: its proofs can be checked since format {FORMAT}",
            where=str(verified.path),
            remedy="build the package again with this version of nnkit",
        )
    try:
        evidence = read_evidence(lambda name: _document(verified, name))
        files = {name: it for name, it in manifest.files.items() if name not in (PROVENANCE_NAME, SBOM_NAME)}
        made = {name: _document(verified, name) for name in (MANIFEST_NAME, PROVENANCE_NAME, SBOM_NAME)}
        check_derived(evidence, manifest, made)
        held = check_evidence(evidence, files)
        left = unproven(evidence, check_times(evidence))
    except PackageFileError as error:
        raise _wrong(verified, error.file, error.reason) from error
    except (UsageError, UserFileError) as error:  # nothing can be made of what the report says
        raise _wrong(verified, REPORT, error.reason) from error
    except _SHAPELESS as error:
        raise _wrong(verified, REPORT, f"its proofs cannot be read ({type(error).__name__}: {error})") from error
    layers = [layer for each in evidence.of_networks for layer in each.report["layers"]]
    others = Counter(str(layer["proof"]) for layer in layers if not is_bounded(layer))
    said_twice = f"files: {len(manifest.files)}, and all that they say twice is the same"
    return ProofResult((*held, said_twice), dict(others), left)


def unproven(evidence: Evidence, not_timed: str = "") -> tuple[str, ...]:
    """What no other place of a package confirms. not_timed: why times were not computed again."""
    lines = ["what code and weights compute", "accuracy, calibration, and what runs measured"]
    speed = [entry for each in evidence.of_networks for entry in each.report["speed"]]
    if speed:
        stated = ", ".join(f"{entry['what']} {entry['value']:g} {entry['unit']}" for entry in speed)
        reason = f", not computed again: {not_timed}" if not_timed else ""
        lines.append(f"what times come from ({stated}){reason}")
    if any(each.report.get("details") for each in evidence.of_networks):
        lines.append("figures of `details`, and what the artifact's files say of themselves")
    lines.append("settings of the recipe beside gates, runners, task and target")
    if any(each.plan.get("version", 1) < 2 and each.plan["buffers"] for each in evidence.of_networks):
        lines.append("that results may lie over inputs, of which a plan of version 1 names no accesses")
    return tuple(lines)


def check_evidence(evidence: Evidence, files: Mapping[str, FileRecord]) -> tuple[str, ...]:
    """All but what is made of it for the package: what was checked, in words.

    files: of the build, by name in the package. Raises ContradictionError for the first that does not hold, and
    UnreadableError where a file lacks what it should say.
    """
    networks = tuple(evidence.networks.values())
    try:
        check_files(evidence, files)
        for each in (*networks, evidence):
            check_recipe(each)
        runners, gates = check_runs(evidence), check_gates(evidence)
        for network in networks:
            check_plan(network.plan, network.file(PLAN))
        buffers, overlaps = check_plan(evidence.plan)
        for each in (*networks, evidence):
            check_use(each)
            check_figures(each)
        bounded = 0
        for each in evidence.of_networks:
            check_layers(each)
            bounded += check_accumulators(each)
        if networks:
            check_networks(evidence)
            check_joint_plan(evidence)
            check_joint_layers(evidence)
    except _SHAPELESS as error:
        raise UnreadableError(REPORT, f"its proofs cannot be read ({type(error).__name__}: {error})") from error
    regions = len(evidence.plan["regions"])
    return (
        f"memory plan: {buffers} buffers in {regions} regions do not overlap while live{overlaps}",
        f"comparison: {runners} runners without a difference" if runners else "comparison: nothing has run it",
        f"gates: {gates} kept, those of the recipe",
        *([f"accumulators: those of {bounded} layers, by the sums of their weights"] if bounded else []),
    )


def _document(verified: VerifyResult, name: str) -> bytes:
    if name not in verified.documents:
        raise UnreadableError(name, "the package has no such file")
    return verified.documents[name]


def _wrong(verified: VerifyResult, file: str, reason: str) -> GateFailedError:
    return GateFailedError(
        f"a proof does not hold: {reason}",
        where=f"{verified.path}: {file}",
        remedy="ask who released it, or build it from its recipe",
    )

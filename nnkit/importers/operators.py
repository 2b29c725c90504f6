"""Which operators a model uses: versions, domains, functions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nnkit.custom_ops import is_custom, op_of
from nnkit.errors import ModelError
from nnkit.graph.refusal import Refusal, refusal_lines
from nnkit.importers.tensors import array_of
from nnkit.importers.tidy import graphs
from nnkit.installation import pip_install

if TYPE_CHECKING:
    import onnx

OLDEST_OPSET = 9
DEFAULT_DOMAINS = ("", "ai.onnx")
_DOMAINS = {
    "com.microsoft": "ONNX Runtime's optimiser or quantiser writes it: give the network as it was before",
    "ai.onnx.ml": "scikit-learn's converters write it: trees, support vectors and tables of labels are not taken; "
    "leave the labels out with the converter's option zipmap=False",
}
"""What to do about operators of other sets, by the set."""
_QUANTISED_AS_IT_RUNS = ("ConvInteger", "DynamicQuantizeLinear", "MatMulInteger")
_TERM = r"[A-Za-z]*(\.\.\.)?[A-Za-z]*"
_EQUATION = re.compile(rf"{_TERM}(,{_TERM})*(->{_TERM})?")
_SHOWN = 60
"""Characters of an equation in a message."""


def check_versions(proto: onnx.ModelProto, where: str) -> int:
    """The version of the default operator set.

    Raises:
        ModelError: it or the file format is older or newer than what can be read.
    """
    import onnx

    newest = int(onnx.defs.onnx_opset_version())
    if proto.ir_version > onnx.IR_VERSION:
        raise ModelError(
            f"the file has ONNX IR version {proto.ir_version}; the installed onnx reads up to {onnx.IR_VERSION}",
            where=where,
            remedy=f"{pip_install('-U onnx')}, or export with an older version",
        )
    versions = sorted({int(entry.version) for entry in proto.opset_import if entry.domain in DEFAULT_DOMAINS})
    if len(versions) != 1:
        named = f"it names {' and '.join(map(str, versions))}" if versions else "it names none"
        raise ModelError(
            f"the file does not say which operator set it uses: {named}",
            where=where,
            remedy="export the network again",
        )
    opset = versions[0]
    if opset < OLDEST_OPSET:
        raise ModelError(
            f"the network uses operator set {opset}; {OLDEST_OPSET} is the oldest that can be imported",
            where=where,
            remedy=f"export the network with an operator set from {OLDEST_OPSET} to {newest}, for example 17",
        )
    if opset > newest:
        raise ModelError(
            f"the network uses operator set {opset}; the installed onnx knows {newest} and older",
            where=where,
            remedy=f"{pip_install('-U onnx')}, or export the network with operator set {newest} or older",
        )
    return opset


def check_operators(graph: onnx.GraphProto, opset: int, where: str) -> None:
    """Every operator, also in the bodies of control flow, is one of ONNX's own at this version, or of `ai.nnkit` with
    attributes that are right; none quantises values by ranges that it finds as the network runs.

    Raises:
        ModelError: listing all that are not, with the names of their layers.
    """
    import onnx

    refused: list[Refusal] = []
    for node in (node for each in graphs(graph) for node in each.node):
        name = node.name or node.op_type
        if is_custom(node):
            try:
                op_of(node)
            except ModelError as error:
                refused.append(Refusal(name, node.op_type, error.reason))
            continue
        if node.domain not in DEFAULT_DOMAINS:
            reason = f"the operator set '{node.domain}' is not ONNX's own"
            refused.append(Refusal(name, node.op_type, reason, _DOMAINS.get(node.domain, "")))
            continue
        if node.op_type in _QUANTISED_AS_IT_RUNS:
            reason, remedy = (
                "the network is quantised anew at each run",
                "give the float network, which nnkit quantises",
            )
            refused.append(Refusal(name, node.op_type, reason, remedy))
            continue
        try:
            onnx.defs.get_schema(node.op_type, opset, "")
        except onnx.defs.SchemaError:
            reason = f"ONNX has no such operator in operator set {opset}"
            refused.append(Refusal(name, node.op_type, reason, _another_set(node.op_type, opset)))
    if refused:
        raise _listed(refused, "the network uses operators that cannot be imported", where)


def _another_set(op_type: str, opset: int) -> str:
    """What to do about an operator that this operator set lacks; empty where ONNX has none of this name."""
    import onnx

    versions = [each.since_version for each in onnx.defs.get_all_schemas_with_history() if each.name == op_type]
    versions = [each for each in versions if each > opset]
    return f"export the network with operator set {min(versions)} or newer" if versions else ""


def check_inference_mode(graph: onnx.GraphProto, where: str) -> None:
    """No layer is in training mode, in which batch normalisation and dropout are not what they are in use.

    Raises:
        ModelError: listing all that are.
    """
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    refused: list[Refusal] = []
    for node in graph.node:
        training = any(attribute.name == "training_mode" and attribute.i for attribute in node.attribute)
        if node.op_type == "Dropout" and len(node.input) > 2 and node.input[2] in tensors:
            training = bool(array_of(tensors[node.input[2]], where).any())
        if training:
            refused.append(Refusal(node.name, node.op_type, "it is in training mode"))
    if refused:
        raise _listed(refused, "the network was exported in training mode", where, "export it in inference mode")


def check_equations(graph: onnx.GraphProto, where: str) -> None:
    """The equation of every Einsum is one, also in the bodies of control flow.

    ONNX's inference of shapes never ends at some that are none (four dots in a row).

    Raises:
        ModelError: listing all that are not.
    """
    refused: list[Refusal] = []
    for node in (node for each in graphs(graph) for node in each.node if node.op_type == "Einsum"):
        equation = next((each.s for each in node.attribute if each.name == "equation"), b"").decode(errors="replace")
        if not _EQUATION.fullmatch(equation.replace(" ", "")):
            reason = f"{equation[:_SHOWN]!r} is no equation"
            refused.append(Refusal(node.name or node.output[0], node.op_type, reason))
    if refused:
        remedy = "write letters and at most one ... for each input, as in 'bhwc,cd->bhwd', and export it again"
        raise _listed(refused, "equations of the network cannot be read", where, remedy)


def _listed(refused: Sequence[Refusal], what: str, where: str, remedy: str = "") -> ModelError:
    return ModelError(
        refusal_lines(f"{what} ({len(refused)}):", refused),
        where=where,
        remedy=remedy or "replace these operators in the network and export it again",
    )

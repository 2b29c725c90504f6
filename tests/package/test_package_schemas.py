"""Bill of materials and provenance of a real package, by the validators of who publishes their formats.

CycloneDX: the JSON schema of 1.5 as its Python library holds it. in-toto: the messages of its Python library, parsed
without unknown fields. protobuf has no required fields: those of Statement v1 and of SLSA provenance v1
(slsa.dev/spec/v1.0/provenance) are stated here.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from google.protobuf import json_format
from in_toto_attestation.predicates.provenance.v1 import provenance_pb2
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor
from in_toto_attestation.v1.statement import Statement
from small_project import make_build, write_project

from nnkit import pipeline
from nnkit.c.host_compiler import host_compiler
from nnkit.package.provenance import PROVENANCE_NAME, SBOM_NAME

if host_compiler() is None:
    pytest.skip("no C compiler", allow_module_level=True)

URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]+")
URN = re.compile(r"urn:[A-Za-z0-9][A-Za-z0-9-]{0,30}[A-Za-z0-9]:[^\s?#]+")  # RFC 8141: a namespace and a name in it
SHA256 = re.compile(r"[0-9a-f]{64}")


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A package's files, read by zipfile; of the provenance the statement in its envelope."""
    folder = tmp_path_factory.mktemp("schemas")
    built = pipeline.run(make_build(write_project(folder)), folder / "out").folder
    with zipfile.ZipFile(next(built.glob("*.nnpkg"))) as archive:
        found = {name: archive.read(name) for name in archive.namelist()}
    return found | {PROVENANCE_NAME: base64.standard_b64decode(json.loads(found[PROVENANCE_NAME])["payload"])}


def sbom_error(content: Any) -> str | None:
    found = JsonStrictValidator(SchemaVersion.V1_5).validate_str(json.dumps(content))
    return None if found is None else str(found)


def check_uri(text: str) -> None:
    pattern = URN if text.lower().startswith("urn:") else URI
    if not pattern.fullmatch(text):
        raise ValueError(f"no URI: {text!r}")


def check_statement(content: Any) -> None:
    """Raises ValueError, or json_format.ParseError, where the two specifications are not kept."""
    statement = Statement.copy_from_pb(json_format.ParseDict(content, statement_pb2.Statement()))
    statement.validate()
    if statement.pb.predicate_type != "https://slsa.dev/provenance/v1":
        raise ValueError(f"predicateType is {statement.pb.predicate_type!r}")
    slsa = json_format.ParseDict(content["predicate"], provenance_pb2.Provenance())
    definition, details = slsa.build_definition, slsa.run_details
    check_uri(definition.build_type)
    check_uri(details.builder.id)
    if not definition.external_parameters.fields:
        raise ValueError("externalParameters are missing")
    names = [each.name for each in statement.pb.subject]
    if len(set(names)) != len(names) or "" in names:
        raise ValueError("the subjects have no names of their own")
    for each in (*statement.pb.subject, *definition.resolved_dependencies):
        ResourceDescriptor.copy_from_pb(each).validate()
        if set(each.digest) != {"sha256"} or not SHA256.fullmatch(each.digest["sha256"]):
            raise ValueError(f"digest of {each.name} is {dict(each.digest)}")


def sha256_by_name(members: dict[str, bytes]) -> dict[str, str]:
    """Of the files that the two documents describe: all but themselves and the manifest with its signature."""
    own = {PROVENANCE_NAME, SBOM_NAME, "manifest.json", "signature.json"}
    return {name: hashlib.sha256(data).hexdigest() for name, data in members.items() if name not in own}


def test_the_bill_of_materials_keeps_the_published_schema(members: dict[str, bytes]) -> None:
    content = json.loads(members[SBOM_NAME])
    assert sbom_error(content) is None
    hashes = {each["name"]: each["hashes"] for each in content["components"]}
    assert hashes == {n: [{"alg": "SHA-256", "content": it}] for n, it in sha256_by_name(members).items()}
    refs = [content["metadata"]["component"]["bom-ref"], *(each["bom-ref"] for each in content["components"])]
    assert len(set(refs)) == len(refs)
    assert {ref for each in content["dependencies"] for ref in (each["ref"], *each["dependsOn"])} <= set(refs)


def test_the_provenance_keeps_the_published_rules(members: dict[str, bytes]) -> None:
    content = json.loads(members[PROVENANCE_NAME])
    check_statement(content)
    assert {each["name"]: each["digest"]["sha256"] for each in content["subject"]} == sha256_by_name(members)


@pytest.mark.parametrize(
    "plant",
    [
        lambda it: it.update(version="1"),
        lambda it: it.pop("bomFormat"),
        lambda it: it.update(made="today"),
        lambda it: it["components"][0].pop("name"),
        lambda it: it["components"][0].update(type="weights"),
        lambda it: it["components"][0]["hashes"][0].update(content="abc"),
        lambda it: it["components"].append(it["components"][0]),
        lambda it: it.update(serialNumber="7"),
    ],
)
def test_a_mistake_in_the_bill_of_materials_is_found(members: dict[str, bytes], plant: Callable[[Any], Any]) -> None:
    content = json.loads(members[SBOM_NAME])
    plant(content)
    assert sbom_error(content)


def definition(content: Any) -> Any:
    return content["predicate"]["buildDefinition"]


@pytest.mark.parametrize(
    ("plant", "reason"),
    [
        (lambda it: it.update(_type="https://in-toto.io/Statement/v0.1"), "statement type"),
        (lambda it: it.update(predicateType="https://slsa.dev/provenance/v0.2"), "predicateType"),
        (lambda it: it.update(subject=[]), "At least one subject"),
        (lambda it: it["subject"][0].pop("digest"), "At least one digest"),
        (lambda it: it["subject"][0].update(name=3), "name"),
        (lambda it: it["subject"].append(it["subject"][0]), "names of their own"),
        (lambda it: it["subject"][0]["digest"].update(sha256=it["subject"][0]["digest"]["sha256"].upper()), "digest"),
        (lambda it: definition(it)["resolvedDependencies"][0]["digest"].update(sha256=None), "digest"),
        (lambda it: definition(it).pop("buildType"), "no URI"),
        (lambda it: definition(it).pop("externalParameters"), "externalParameters"),
        (lambda it: definition(it).update(made="today"), "made"),
        (lambda it: it["predicate"]["runDetails"]["builder"].pop("id"), "no URI"),
        (lambda it: it["predicate"]["runDetails"]["builder"].update(id="urn:nnkit"), "no URI"),
        (lambda it: it["predicate"]["runDetails"]["builder"].update(version="1"), "version"),
    ],
)
def test_a_mistake_in_the_provenance_is_found(
    members: dict[str, bytes], plant: Callable[[Any], Any], reason: str
) -> None:
    content = json.loads(members[PROVENANCE_NAME])
    plant(content)
    with pytest.raises((ValueError, json_format.ParseError), match=reason):
        check_statement(content)

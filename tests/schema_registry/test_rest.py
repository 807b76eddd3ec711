"""The REST interface, without HTTP: what is answered, what is refused, and with which code and words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

pytest.importorskip("fastavro")

from schema_registry.asking import Asked


def fixed(size: int, name: str = "F") -> str:
    return json.dumps({"type": "fixed", "name": name, "size": size}, separators=(",", ":"))


R1 = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
R2 = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":"int","default":1}]}'
#: Neither reads the other's.
R3 = '{"type":"record","name":"R","fields":[{"name":"c","type":"string"}]}'


def test_versions_and_ids() -> None:
    ask = Asked("NONE")
    assert ask.register("s", '"long"') == 1
    assert ask.register("s", ' {"type": "long"} ') == 1
    assert ask.register("s", '"int"') == 2
    assert ask.register("t", '"int"') == 2
    assert ask("GET", "/subjects") == ["s", "t"]
    assert ask("GET", "/subjects/s/versions") == [1, 2]
    assert ask("GET", "/subjects/s/versions/latest") == {
        "subject": "s",
        "version": 2,
        "id": 2,
        "schema": '"int"',
    }
    assert ask("GET", "/subjects/s/versions/-1") == ask("GET", "/subjects/s/versions/2")
    assert ask("GET", "/subjects/s/versions/1/schema") == '"long"'
    assert ask("GET", "/schemas/ids/2") == {"schema": '"int"'}
    assert ask("GET", "/schemas/ids/2?fetchMaxId=true") == {"schema": '"int"', "maxId": 2}
    assert ask("GET", "/schemas/ids/2/schema") == '"int"'
    assert ask("GET", "/schemas/ids/2/subjects") == ["s", "t"]
    assert ask("GET", "/schemas/ids/2/versions") == [
        {"subject": "s", "version": 2},
        {"subject": "t", "version": 1},
    ]
    assert ask("POST", "/subjects/s", {"schema": '{"type":"long"}'})["version"] == 1
    assert [one["id"] for one in ask("GET", "/schemas")] == [1, 2, 2]
    assert [one["id"] for one in ask("GET", "/schemas?latestOnly=true&subjectPrefix=s")] == [2]
    assert ask("GET", "/subjects?subjectPrefix=:*:t") == ["t"]
    assert ask("GET", "/subjects?offset=1&limit=1") == ["t"]
    assert ask("GET", "/schemas/types") == ["JSON", "PROTOBUF", "AVRO"]
    assert ask("GET", "/contexts") == ["."]
    assert ask("GET", "/") == {}


def test_names_with_anything_in_them() -> None:
    ask = Asked()
    assert ask.register("a%2Fb%20%C3%BC", '"int"') == 1
    assert ask("GET", "/subjects") == ["a/b ü"]
    assert ask("GET", "/subjects/:.:a%2Fb%20%C3%BC/versions") == [1]


REFUSALS = [
    ("GET", "/subjects/none/versions", None, 404, 40401, "Subject 'none' not found."),
    ("GET", "/subjects/none/versions/1", None, 404, 40401, "Subject 'none' not found."),
    ("GET", "/subjects/s/versions/9", None, 404, 40402, "Version 9 not found."),
    ("GET", "/schemas/ids/9", None, 404, 40403, "Schema 9 not found"),
    ("GET", "/schemas/ids/x", None, 404, 40403, "Schema not found"),
    ("GET", "/schemas/ids/9/subjects", None, 404, 40403, "Schema not found"),
    ("POST", "/subjects/s", {"schema": '"int"'}, 404, 40403, "Schema not found"),
    ("POST", "/subjects/none", {"schema": '"int"'}, 404, 40401, "Subject 'none' not found."),
    (
        "GET",
        "/config/s",
        None,
        404,
        40408,
        "Subject 's' does not have subject-level compatibility configured",
    ),
    ("GET", "/mode/s", None, 404, 40409, "Subject 's' does not have subject-level mode configured"),
    ("DELETE", "/config/s", None, 404, 40401, "Subject 's' not found."),
    ("DELETE", "/mode/s", None, 404, 40401, "Subject 's' not found."),
    ("DELETE", "/subjects/none", None, 404, 40401, "Subject 'none' not found."),
    ("DELETE", "/subjects/s/versions/9", None, 404, 40402, "Version 9 not found."),
    (
        "GET",
        "/subjects/s/versions/x",
        None,
        422,
        42202,
        "The specified version 'x' is not a valid version id",
    ),
    (
        "GET",
        "/subjects/s/versions/0",
        None,
        422,
        42202,
        "The specified version '0' is not a valid version id",
    ),
    ("GET", "/subjects/s/versions/2147483648", None, 422, 42202, "The specified version '2147483648'"),
    ("POST", "/subjects/s/versions", {"schema": "no"}, 422, 42201, "Invalid schema"),
    ("POST", "/subjects/s/versions", {}, 422, 42201, "Empty schema"),
    ("POST", "/subjects/s/versions", {"schema": "a", "schemaType": "X"}, 422, 42201, "Invalid schema type X"),
    (
        "POST",
        "/subjects/s/versions",
        {"schema": '"N"', "references": [{"name": "N", "subject": "none", "version": 1}]},
        422,
        42201,
        'No schema reference found for subject "none" and version 1',
    ),
    ("POST", "/subjects/s/versions", {"schema": '"N"', "references": ["x"]}, 422, 42201, "Invalid reference"),
    ("POST", "/subjects/s/versions", {"schema": "\ud800"}, 422, 42201, "half a character"),
    ("POST", "/subjects/s/versions", [], 400, 400, "no JSON object"),
    ("POST", "/compatibility/subjects/s/versions/9", {"schema": '"int"'}, 404, 40402, "Version 9 not found."),
    ("PUT", "/config", {"compatibility": "SOMEWHAT"}, 422, 42203, "Invalid compatibility level"),
    ("PUT", "/config", {"alias": "x"}, 422, 42205, "does not have the configs alias"),
    ("PUT", "/mode", {"mode": "SLEEPY"}, 422, 42204, "Invalid mode"),
    ("GET", "/subjects/:.ctx:s/versions", None, 422, 42208, "There are no contexts here"),
    ("GET", "/subjects//versions", None, 422, 42208, "The specified subject '' is not a valid."),
    ("GET", "/nowhere", None, 404, 404, "HTTP 404 Not Found"),
    ("PUT", "/subjects", {}, 405, 405, "HTTP 405 Method Not Allowed"),
    ("GET", "/subjects?limit=x", None, 404, 404, "HTTP 404 Not Found"),
]


@pytest.mark.parametrize(("method", "target", "body", "status", "code", "message"), REFUSALS)
def test_refusals(method: str, target: str, body: Any, status: int, code: int, message: str) -> None:
    ask = Asked()
    ask.register("s", '"long"')
    written = len(ask.records)
    answer = ask(method, target, body)
    assert answer[:2] == (status, code)
    assert message in answer[2]
    assert len(ask.records) == written


def test_what_is_not_compatible_is_refused() -> None:
    ask = Asked()
    ask.register("s", R1)
    assert ask.register("s", R2) == 2
    status, code, message = ask.register("s", R3)
    assert (status, code) == (409, 409)
    assert message.startswith(
        'Schema being registered is incompatible with an earlier schema for subject "s", details: ['
    )
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in message
    assert "{oldSchemaVersion: 2}" in message
    assert ask("GET", "/subjects/s/versions") == [1, 2]
    other = ask.register("s", "true", "JSON") if _has_jsonschema() else (409, 409, "different schema type")
    assert other[0] == 409 and "different schema type" in other[2]


def _has_jsonschema() -> bool:
    try:
        import jsonschema  # noqa: F401
    except ImportError:
        return False
    return True


#: Level → whether (an int after a long, a long after an int, an int after an int after a long) are refused.
OUTCOMES = {
    "NONE": (False, False, False),
    "BACKWARD": (True, False, False),
    "BACKWARD_TRANSITIVE": (True, False, True),
    "FORWARD": (False, True, False),
    "FORWARD_TRANSITIVE": (False, True, False),
    "FULL": (True, True, False),
    "FULL_TRANSITIVE": (True, True, True),
}


@pytest.mark.parametrize("level", OUTCOMES)
def test_levels(level: str) -> None:
    """A long reads what is an int, not the other way round."""

    def is_refused(*history: str) -> bool:
        ask = Asked("NONE")
        *before, last = [
            json.dumps(
                {"type": "record", "name": "R", "doc": str(n), "fields": [{"name": "a", "type": kind}]}
            )
            for n, kind in enumerate(history)
        ]
        for schema in before:
            ask.register("s", schema)
        assert ask("PUT", "/config/s", {"compatibility": level.lower()}) == {"compatibility": level}
        verbose = ask("POST", "/compatibility/subjects/s/versions?verbose=true", {"schema": last})
        refused = isinstance(ask.register("s", last), tuple)
        assert verbose["is_compatible"] is not refused
        assert bool(verbose["messages"]) is refused
        return refused

    assert (
        is_refused("long", "int"),
        is_refused("int", "long"),
        is_refused("long", "int", "int"),
    ) == OUTCOMES[level]


def test_compatibility_with_one_version() -> None:
    ask = Asked("NONE")
    ask.register("s", R1)
    ask.register("s", R3)
    ask("PUT", "/config", {"compatibility": "BACKWARD"})
    path = "/compatibility/subjects/s/versions"
    assert ask("POST", f"{path}/1", {"schema": R2}) == {"is_compatible": True}
    assert ask("POST", f"{path}/latest", {"schema": R2}) == {"is_compatible": False}
    assert ask("POST", f"{path}/latest?verbose=true", {"schema": "no"})["is_compatible"] is False
    assert ask("POST", f"{path}/latest", {"schema": "no"})[1] == 42201
    assert ask("POST", "/compatibility/subjects/none/versions/latest", {"schema": R2}) == {
        "is_compatible": True
    }


def test_configs() -> None:
    ask = Asked("FULL")
    assert ask("GET", "/config") == {"compatibilityLevel": "FULL"}
    assert ask("PUT", "/config", {"compatibility": "none"}) == {"compatibility": "NONE"}
    assert ask("PUT", "/config/s", {"normalize": True}) == {"normalize": True}
    assert ask("PUT", "/config/s", {"compatibility": "FORWARD"}) == {"compatibility": "FORWARD"}
    assert ask("GET", "/config/s") == {"normalize": True, "compatibilityLevel": "FORWARD"}
    assert ask("GET", "/config/t?defaultToGlobal=true") == {"compatibilityLevel": "NONE"}
    assert ask("DELETE", "/config/s") == {"normalize": True, "compatibilityLevel": "FORWARD"}
    assert ask("GET", "/config/s")[1] == 40408
    assert ask("DELETE", "/config") == {"compatibilityLevel": "NONE"}
    assert ask("GET", "/config") == {"compatibilityLevel": "FULL"}


def test_modes() -> None:
    ask = Asked()
    assert ask("GET", "/mode") == {"mode": "READWRITE"}
    assert ask("PUT", "/mode/s", {"mode": "readonly"}) == {"mode": "READONLY"}
    assert ask("GET", "/mode/s") == {"mode": "READONLY"}
    assert ask("GET", "/mode/t?defaultToGlobal=true") == {"mode": "READWRITE"}
    refused = (422, 42205, "Subject s in context  is in read-only mode")
    assert ask.register("s", R1) == refused
    assert ask("DELETE", "/subjects/s") == refused
    assert ask("PUT", "/config/s", {"compatibility": "NONE"}) == refused
    assert ask("DELETE", "/mode/s") == {"mode": "READONLY"}
    assert ask.register("s", R1) == 1
    assert ask("PUT", "/mode", {"mode": "READONLY"}) == {"mode": "READONLY"}
    assert ask.register("s", R2)[1] == 42205


def test_modes_may_be_kept_from_changing() -> None:
    ask = Asked(are_modes_mutable=False)
    assert ask("PUT", "/mode", {"mode": "READONLY"}) == (422, 42205, "Mode changes are not allowed")


def test_a_registry_is_filled_from_another_one() -> None:
    ask = Asked()
    assert ask.register("s", R1, id=7) == (422, 42205, "Subject s in context  is not in import mode")
    ask.register("t", R1)
    assert ask("PUT", "/mode", {"mode": "IMPORT"})[2] == "Cannot import since found existing subjects"
    assert ask("PUT", "/mode/s", {"mode": "IMPORT"}) == {"mode": "IMPORT"}
    assert ask.register("s", R1)[2] == "Subject s in context  is not in read-write mode"
    assert ask.register("s", R3, id=70, version=3) == 70
    assert ask.register("s", R3, id=70, version=3) == 70
    assert (
        ask.register("s", R2, id=70, version=4)[2]
        == "Overwrite new schema with id 70 in context  is not permitted."
    )
    assert ask.register("s", R2, id=71, version=3)[1] == 42205
    assert ask("GET", "/subjects/s/versions") == [3]
    ask("DELETE", "/mode/s")
    assert ask.register("u", '"int"') == 71


def test_deleting_softly_and_for_good() -> None:
    ask = Asked("NONE")
    for size in (1, 2, 3):
        ask.register("s", fixed(size))
    assert ask("DELETE", "/subjects/s/versions/2?permanent=true")[:2] == (404, 40407)
    assert ask("DELETE", "/subjects/s/versions/2") == 2
    assert ask("GET", "/subjects/s/versions") == [1, 3]
    assert ask("GET", "/subjects/s/versions?deleted=true") == [1, 2, 3]
    assert ask("GET", "/subjects/s/versions?deletedOnly=true") == [2]
    assert ask("GET", "/subjects/s/versions/2")[1] == 40402
    assert ask("GET", "/subjects/s/versions/2?deleted=true")["id"] == 2
    assert ask("GET", "/schemas/ids/2") == {"schema": fixed(2)}
    assert ask("GET", "/schemas/ids/2/versions") == []
    assert ask("DELETE", "/subjects/s/versions/2")[:2] == (404, 40406)
    assert ask("DELETE", "/subjects/s/versions/2?permanent=true") == 2
    assert ask("GET", "/schemas/ids/2")[1] == 40403
    assert ask("DELETE", "/subjects/s?permanent=true")[:2] == (404, 40405)
    assert ask("DELETE", "/subjects/s") == [1, 3]
    assert ask("DELETE", "/subjects/s")[:2] == (404, 40404)
    assert ask("GET", "/subjects") == []
    assert ask("GET", "/subjects?deleted=true") == ask("GET", "/subjects?deletedOnly=true") == ["s"]
    ask("PUT", "/config/s", {"compatibility": "FULL"})
    assert ask("DELETE", "/subjects/s?permanent=true") == [1, 3]
    assert ask("GET", "/config/s")[1] == 40408
    assert ask("DELETE", "/subjects/s")[:2] == (404, 40401)
    # Ids are not given twice.
    assert ask.register("s", fixed(9)) == 4


def test_a_deleted_schema_comes_back_under_its_id() -> None:
    ask = Asked("NONE")
    ask.register("s", R1)
    ask.register("s", R3)
    ask("DELETE", "/subjects/s")
    assert ask.register("s", R1) == 1
    assert ask("GET", "/subjects/s/versions") == [3]
    assert ask("GET", "/subjects/s/versions?deleted=true") == [2, 3]


def test_references() -> None:
    ask = Asked()
    ask.register("inner", fixed(1, "I"))
    reference = {"name": "I", "subject": "inner", "version": 1}
    assert ask.register("outer", '{"type":"array","items":"I"}', references=[reference]) == 2
    assert ask("GET", "/subjects/outer/versions/1")["references"] == [reference]
    assert ask("GET", "/subjects/inner/versions/1/referencedby") == [2]
    refused = (
        "One or more references exist to the schema {magic=1,keytype=SCHEMA,subject=inner,version=1}.",
    )
    assert ask("DELETE", "/subjects/inner") == (422, 42206, *refused)
    assert ask("DELETE", "/subjects/inner/versions/1") == (422, 42206, *refused)
    ask("DELETE", "/subjects/outer")
    assert ask("DELETE", "/subjects/inner") == [1]
    # What is hidden refers still.
    assert ask("DELETE", "/subjects/inner?permanent=true") == (422, 42206, *refused)
    ask("DELETE", "/subjects/outer?permanent=true")
    assert ask("DELETE", "/subjects/inner?permanent=true") == [1]


def test_normalized() -> None:
    ask = Asked("NONE")
    one, two = '{"type":"int","b":1,"a":2}', '{"type":"int","a":2,"b":1}'
    assert ask.register("plain", one) != ask.register("plain", two)
    first = ask("POST", "/subjects/s/versions?normalize=true", {"schema": one})
    assert ask("POST", "/subjects/s/versions?normalize=true", {"schema": two}) == first
    assert ask("POST", "/subjects/s?normalize=True", {"schema": one})["schema"] == two
    ask("PUT", "/config", {"normalize": True})
    assert ask.register("t", one) == first["id"]


def test_metadata_and_rules_are_kept() -> None:
    ask = Asked("NONE")
    more = {"metadata": {"properties": {"owner": "x"}}, "ruleSet": {"domainRules": []}}
    assert ask.register("s", R1, **more) == 1
    assert ask("GET", "/schemas/ids/1") == {"schema": R1, **more}
    assert ask.register("s", R1) == 2
    assert ask("POST", "/subjects/s", {"schema": R1, **more})["version"] == 1


_NAMES = st.sampled_from(
    [
        "type", "name", "namespace", "fields", "items", "values", "symbols", "default", "aliases",
        "size", "doc", "R", "null", "int", "string", "record", "enum", "array", "object", "properties",
        "$ref", "#/definitions/a", "definitions", "a", "oneOf", "anyOf", "allOf", "not", "const",
        "required", "additionalProperties", "minimum", "pattern", "$schema", "$id", "dependencies",
        "integer", "http://json-schema.org/draft-07/schema#", "patternProperties", "prefixItems", "n.R",
        "\ud800", "ü",
    ]
)  # fmt: skip
_TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.just(0.5) | _NAMES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_NAMES, inner, max_size=5),
    max_leaves=15,
)


@pytest.mark.fuzz
@given(trees=st.lists(_TREES, min_size=1, max_size=3), kind=st.sampled_from(["AVRO", "JSON"]))
@example(trees=[1e308 * 10], kind="JSON")
@example(trees=[{"type": "string", "x": "\ud800"}], kind="JSON")
def test_any_schema_is_registered_or_refused(trees: list[Any], kind: str) -> None:
    """Invariant: an id or a refusal, never a failure; what was registered is registered under its id."""
    ask = Asked("FULL_TRANSITIVE")
    for tree in trees:
        text = json.dumps(tree)
        answer = ask.register("s", text, kind)
        if isinstance(answer, int):
            assert ask.register("s", text, kind) == answer
            kept = ask("GET", f"/schemas/ids/{answer}")["schema"]
            assert ask.register("s", kept, kind) == answer
        else:
            assert answer[0] in (409, 422)


def test_what_cannot_be_answered_is_told(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    ask = Asked()
    monkeypatch.setattr(ask.registry, "by_id", lambda *_, **__: 1 // 0)
    assert ask("GET", "/schemas/ids/1") == (500, 500, "Internal Server Error")
    assert "ZeroDivisionError" in caplog.text


def test_another_registry_that_replays_the_records_answers_the_same() -> None:
    ask = Asked("NONE")
    ask.register("s", R1)
    ask.register("s", R3)
    ask.register("t", R3)
    ask("DELETE", "/subjects/s/versions/1")
    ask("DELETE", "/subjects/t")
    ask("PUT", "/config/s", {"compatibility": "FULL"})
    ask("PUT", "/mode/u", {"mode": "IMPORT"})
    again = Asked("NONE")
    for record in ask.records:
        again.registry.subjects.replay(*record)
    for target in (
        "/subjects?deleted=true",
        "/schemas?deleted=true",
        "/schemas/ids/1",
        "/schemas/ids/2/versions",
        "/config/s",
        "/mode/u",
    ):
        assert again("GET", target) == ask("GET", target)
    assert again.register("s", R2) == ask.register("s", R2)


def test_the_newest_version_with_metadata() -> None:
    ask = Asked("NONE")
    path = "/subjects/s/metadata"
    assert ask("GET", path) == (404, 40401, "Subject 's' not found.")
    for size, properties in ((1, {"a": "x", "b": "y"}), (2, {"a": "x"}), (3, None)):
        body = {"schema": fixed(size)} | ({"metadata": {"properties": properties}} if properties else {})
        ask("POST", "/subjects/s/versions", body)
    assert ask("GET", f"{path}?key=a&value=x")["version"] == 2
    assert ask("GET", f"{path}?key=a&value=x&key=b&value=y")["version"] == 1
    assert ask("GET", path)["version"] == 2
    assert ask("GET", f"{path}?key=a&value=y") == (404, 40403, "Schema not found")
    ask("DELETE", "/subjects/s/versions/2")
    assert ask("GET", f"{path}?key=a&value=x")["version"] == 1
    assert ask("GET", f"{path}?key=a&value=x&deleted=true")["version"] == 2

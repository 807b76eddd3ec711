"""The paths of the REST interface, and what each does. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from odradek.schema_registry.errors import RestException, schema_not_found
from odradek.schema_registry.registry import Outcome, Registry
from odradek.schema_registry.requests import (
    DEFAULT_CONTEXT,
    read_config,
    read_mode,
    read_schema,
    read_scope,
    read_subject,
    read_version,
)
from odradek.schema_registry.schema import SCHEMA_TYPES
from odradek.util.http_routes import NoRouteError, Request, Routes

WRITING_METHODS = ("POST", "PUT", "DELETE")
_MOST_LISTED = 1000
"""So many schemas does an answer have at most; `offset` gets the next."""
_ACCEPTS_MORE = "confluent-accept-unknown-properties"
"""Clients send it that pass over what they do not know in an answer. Older ones fail at a `guid`."""


class _Call(NamedTuple):
    """A request whose path was found.

    Attributes:
        words: of the path, what stands where the pattern has a name.
        query: the last value of each.
        all_values: of the query, all of each.
        accepts_more: whether the client knows, or passes over, what answers have had since Confluent's 7.4.
    """

    words: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes
    all_values: Mapping[str, Sequence[str]]
    accepts_more: bool = False

    @property
    def subject(self) -> str:
        return read_subject(self.words["subject"])

    @property
    def scope(self) -> str | None:
        return read_scope(self.words["subject"]) if "subject" in self.words else None

    @property
    def version(self) -> int:
        return read_version(self.words["version"])

    @property
    def schema_id(self) -> int:
        word = self.words["id"]
        if not re.fullmatch(r"[0-9]{1,10}", word, re.ASCII):
            raise schema_not_found()
        return int(word)

    @property
    def format(self) -> str:
        return self.query.get("format", "").strip()

    def has(self, name: str) -> bool:
        return self.query.get(name, "").lower() == "true"

    def part(self, items: Sequence[Any], most: int | None = None) -> list[Any]:
        """Return those of a list that `offset` and `limit` ask for."""
        offset, limit = (
            _whole_number(self.query.get(name), least) for name, least in (("offset", 0), ("limit", -1))
        )
        end = len(items) if limit < 0 else offset + limit
        if most is not None:
            end = min(end, offset + most)
        return list(items[offset:end])


def _whole_number(text: str | None, least: int) -> int:
    if text is None:
        return least
    if not re.fullmatch(r"-?[0-9]{1,10}", text, re.ASCII):
        raise RestException(404, 404, "HTTP 404 Not Found")
    return max(least, int(text))


def answer(registry: Registry, request: Request) -> Outcome:
    """Return the answer to a request, with the records that have to be written first.

    Raises:
        RestException: the answer is a refusal.
    """
    try:
        route = _ROUTES.find(request)
    except NoRouteError as error:
        status, reason = (405, "Method Not Allowed") if error.methods else (404, "Not Found")
        raise RestException(status, status, f"HTTP {status} {reason}") from None
    accepts_more = request.header(_ACCEPTS_MORE).lower() == "true"
    call = _Call(route.words, route.query, request.body, route.all_values, accepts_more)
    outcome = route.action(registry, call)
    if not isinstance(outcome, Outcome):
        outcome = Outcome(outcome)
    return outcome if accepts_more else outcome._replace(answer=_without_guid(outcome.answer))


def _without_guid(content: Any) -> Any:
    if isinstance(content, list):
        return [_without_guid(part) for part in content]
    if isinstance(content, dict):
        return {name: value for name, value in content.items() if name != "guid"}
    return content


def _subjects(registry: Registry, call: _Call) -> list[str]:
    prefix = call.query.get("subjectPrefix", "")
    prefix = prefix.removeprefix(":*:").removeprefix(DEFAULT_CONTEXT)
    names = registry.subjects.names(deleted=call.has("deleted") or call.has("deletedOnly"))
    if call.has("deletedOnly"):
        names = [name for name in names if not registry.subjects.has(name)]
    return call.part([name for name in names if name.startswith(prefix)])


def _versions(registry: Registry, call: _Call) -> list[int]:
    is_only, subject = call.has("deletedOnly"), call.subject
    versions = registry.subjects.versions(subject, deleted=call.has("deleted") or is_only)
    if not versions:
        # Tells that the subject is not there.
        registry.version(subject, 1)
    return call.part([v.version for v in versions if not is_only or v.is_deleted])


def _version(registry: Registry, call: _Call) -> dict[str, Any]:
    return registry.version(call.subject, call.version, call.format, deleted=call.has("deleted"))


def _latest_with_metadata(registry: Registry, call: _Call) -> dict[str, Any]:
    keys, values = (call.all_values.get(name, ()) for name in ("key", "value"))
    properties = dict(zip(keys, values, strict=False))
    return registry.latest_with_metadata(call.subject, properties, call.format, deleted=call.has("deleted"))


def _by_id(registry: Registry, call: _Call) -> dict[str, Any]:
    return registry.by_id(call.schema_id, call.format, with_highest=call.has("fetchMaxId"))


def _by_guid(registry: Registry, call: _Call) -> dict[str, Any]:
    return registry.by_guid(call.words["guid"], call.format)


def _ids_of_guid(registry: Registry, call: _Call) -> list[dict[str, Any]]:
    return [{"context": ".", "id": schema_id} for schema_id in registry.ids_of_guid(call.words["guid"])]


def _register(registry: Registry, call: _Call) -> Outcome:
    outcome = registry.register(call.subject, read_schema(call.body), normalize=call.has("normalize"))
    return outcome if call.accepts_more else outcome._replace(answer={"id": outcome.answer["id"]})


def _schemas(registry: Registry, call: _Call) -> list[dict[str, Any]]:
    prefix = call.query.get("subjectPrefix", "").removeprefix(":*:").removeprefix(DEFAULT_CONTEXT)
    is_latest, deleted = call.has("latestOnly"), call.has("deleted")
    versions = []
    for name in registry.subjects.names(deleted=deleted):
        if name.startswith(prefix):
            of_subject = registry.subjects.versions(name, deleted=deleted)
            versions += of_subject[-1:] if is_latest else of_subject
    return [registry.show(version) for version in call.part(versions, _MOST_LISTED)]


def _subjects_of_id(registry: Registry, call: _Call) -> list[str]:
    uses = registry.uses_of_id(call.schema_id, deleted=call.has("deleted"))
    return call.part(list(dict.fromkeys(use.subject for use in uses)))


def _versions_of_id(registry: Registry, call: _Call) -> list[dict[str, Any]]:
    uses = registry.uses_of_id(call.schema_id, deleted=call.has("deleted"))
    return call.part([{"subject": use.subject, "version": use.version} for use in uses])


def _look_up(registry: Registry, call: _Call) -> dict[str, Any]:
    return registry.look_up(
        call.subject,
        read_schema(call.body),
        call.format,
        normalize=call.has("normalize"),
        deleted=call.has("deleted"),
    )


def _compatibility(registry: Registry, call: _Call) -> dict[str, Any]:
    return registry.compatibility(
        call.subject,
        read_schema(call.body),
        call.version if "version" in call.words else None,
        normalize=call.has("normalize"),
        verbose=call.has("verbose"),
    )


_Action = Callable[[Registry, _Call], Any]
_TABLE: tuple[tuple[str, str, _Action], ...] = (
    ("GET", "/", lambda registry, call: {}),
    ("GET", "/contexts", lambda registry, call: ["."]),
    ("GET", "/schemas", _schemas),
    ("GET", "/schemas/types", lambda registry, call: list(SCHEMA_TYPES)),
    ("GET", "/schemas/ids/{id}", _by_id),
    ("GET", "/schemas/ids/{id}/schema", lambda registry, call: _by_id(registry, call)["schema"]),
    ("GET", "/schemas/ids/{id}/subjects", _subjects_of_id),
    ("GET", "/schemas/ids/{id}/versions", _versions_of_id),
    ("GET", "/schemas/guids/{guid}", _by_guid),
    ("GET", "/schemas/guids/{guid}/ids", _ids_of_guid),
    ("GET", "/subjects", _subjects),
    ("POST", "/subjects/{subject}", _look_up),
    (
        "DELETE",
        "/subjects/{subject}",
        lambda registry, call: registry.delete_subject(call.subject, permanent=call.has("permanent")),
    ),
    ("GET", "/subjects/{subject}/metadata", _latest_with_metadata),
    ("GET", "/subjects/{subject}/versions", _versions),
    ("POST", "/subjects/{subject}/versions", _register),
    ("GET", "/subjects/{subject}/versions/{version}", _version),
    (
        "DELETE",
        "/subjects/{subject}/versions/{version}",
        lambda registry, call: registry.delete_version(
            call.subject, call.version, permanent=call.has("permanent")
        ),
    ),
    (
        "GET",
        "/subjects/{subject}/versions/{version}/schema",
        lambda registry, call: _version(registry, call)["schema"],
    ),
    (
        "GET",
        "/subjects/{subject}/versions/{version}/referencedby",
        lambda registry, call: call.part(registry.referenced_by(call.subject, call.version)),
    ),
    ("POST", "/compatibility/subjects/{subject}/versions", _compatibility),
    ("POST", "/compatibility/subjects/{subject}/versions/{version}", _compatibility),
    *(
        (method, f"/config{scope}", action)
        for scope in ("", "/{subject}")
        for method, action in (
            (
                "GET",
                lambda registry, call: registry.config(call.scope, or_global=call.has("defaultToGlobal")),
            ),
            ("PUT", lambda registry, call: registry.set_config(call.scope, read_config(call.body))),
            ("DELETE", lambda registry, call: registry.delete_config(call.scope)),
        )
    ),
    *(
        (method, f"/mode{scope}", action)
        for scope in ("", "/{subject}")
        for method, action in (
            ("GET", lambda registry, call: registry.mode(call.scope, or_global=call.has("defaultToGlobal"))),
            (
                "PUT",
                lambda registry, call: registry.set_mode(
                    call.scope, read_mode(call.body), force=call.has("force")
                ),
            ),
            ("DELETE", lambda registry, call: registry.delete_mode(call.scope)),
        )
    ),
)
_ROUTES = Routes(_TABLE)

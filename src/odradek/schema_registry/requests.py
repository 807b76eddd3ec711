"""The contents of requests: bodies, subjects and versions of the REST interface. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from odradek.schema_registry.compatibility import LEVELS
from odradek.schema_registry.errors import (
    RestException,
    invalid_compatibility,
    invalid_mode,
    invalid_schema,
    invalid_subject,
    invalid_version,
    not_permitted,
)
from odradek.schema_registry.schema import AVRO, SCHEMA_TYPES, Schema, SchemaReference
from odradek.schema_registry.subjects import IMPORT, READ_ONLY, READ_WRITE
from odradek.util.json_text import compact, load_json

LATEST = -1
_MOST = 2**31 - 1
DEFAULT_CONTEXT = ":.:"


class SchemaRequest(NamedTuple):
    """A schema that is to be registered, looked up or compared.

    Attributes:
        schema_id, version: where a registry is filled from another one (IMPORT); 0 where they are not said.
    """

    schema: Schema
    schema_id: int = 0
    version: int = 0


def read_body(body: bytes) -> dict[str, Any]:
    """Return a body's JSON object.

    Raises:
        RestException: it is none.
    """
    try:
        value = load_json(body.decode())
    except ValueError as problem:
        raise RestException(400, 400, f"The body is no JSON: {problem}") from None
    if not isinstance(value, dict):
        raise RestException(400, 400, "The body is no JSON object")
    return value


def read_schema(body: bytes) -> SchemaRequest:
    """Return the schema in a body.

    Raises:
        RestException: there is none.
    """
    given = read_body(body)
    text = given.get("schema")
    if not isinstance(text, str) or not text.strip():
        raise invalid_schema("Empty schema")
    if not text.isascii() and _has_half_a_letter(text):
        raise invalid_schema("The schema is not text: half a character")
    schema_type = given.get("schemaType") or AVRO
    if schema_type not in SCHEMA_TYPES:
        raise invalid_schema(f"Invalid schema type {schema_type}")
    schema = Schema(
        schema_type,
        text,
        _references(given.get("references") or []),
        _object(given, "metadata"),
        _object(given, "ruleSet"),
    )
    return SchemaRequest(schema, _number(given, "id"), _number(given, "version"))


def _has_half_a_letter(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _references(given: Any) -> tuple[SchemaReference, ...]:
    references = []
    for reference in given if isinstance(given, list) else [given]:
        try:
            name, subject = reference["name"], reference["subject"]
            version = reference["version"]
        except (KeyError, TypeError):
            name = subject = version = None
        if not (isinstance(name, str) and isinstance(subject, str) and _is_number(version) and version > 0):
            raise invalid_schema(f"Invalid reference {compact(reference)}: it has name, subject and version")
        references.append(SchemaReference(name, read_subject(subject), version))
    return tuple(references)


def _object(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, dict | None):
        raise RestException(400, 400, f"{name} is no JSON object")
    return compact(value, is_sorted=True) if value else ""


def _number(given: Mapping[str, Any], name: str) -> int:
    value = given.get(name)
    if value is None:
        return 0
    if not _is_number(value):
        raise RestException(400, 400, f"{name} is no number")
    return max(0, int(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value <= _MOST


def read_subject(text: str) -> str:
    """Return a subject; that of the default context without the context.

    Raises:
        RestException: it is none, or in another context.
    """
    subject = text.removeprefix(DEFAULT_CONTEXT)
    if subject.startswith((":.", ":*:")):
        raise invalid_subject(text, " There are no contexts here but the default one.")
    # As Confluent's, which has these words for all subjects and for none.
    if not subject or subject in ("__GLOBAL", "__EMPTY") or not subject.isprintable():
        raise invalid_subject(text)
    return subject


def read_scope(text: str) -> str | None:
    """Return a subject that has a config or a mode; None for the default context: all subjects."""
    return None if text == DEFAULT_CONTEXT else read_subject(text)


def read_version(text: str) -> int:
    """Return a version, or `LATEST`.

    Raises:
        RestException: it is none.
    """
    word = text.strip().lower()
    if word in ("latest", "-1"):
        return LATEST
    if not re.fullmatch(r"[0-9]{1,10}", word, re.ASCII) or not 0 < int(word) <= _MOST:
        raise invalid_version(text)
    return int(word)


def read_config(body: bytes) -> dict[str, Any]:
    """Return the config in a body: `compatibilityLevel` and `normalize`, what it has of them.

    Raises:
        RestException: a level that there is not, or a config that this registry has not.
    """
    given = {name: value for name, value in read_body(body).items() if value is not None}
    level = given.pop("compatibility", given.pop("compatibilityLevel", None))
    config: dict[str, Any] = {}
    if level is not None:
        if str(level).upper() not in LEVELS:
            raise invalid_compatibility()
        config["compatibilityLevel"] = str(level).upper()
    if "normalize" in given:
        config["normalize"] = given.pop("normalize") is True
    if given:
        # To keep what is then not done would be a promise.
        raise not_permitted(f"This registry does not have the configs {', '.join(sorted(given))}")
    return config


def read_mode(body: bytes) -> str:
    """Return the mode in a body.

    Raises:
        RestException: there is no such mode.
    """
    mode = str(read_body(body).get("mode")).upper()
    if mode not in (READ_WRITE, READ_ONLY, IMPORT):
        raise invalid_mode()
    return mode

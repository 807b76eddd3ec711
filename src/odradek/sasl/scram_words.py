"""Users as `--add-scram` has them (KIP-900): `SCRAM-SHA-256=[name=alice,password="…",iterations=8192]`."""

from __future__ import annotations

import re
from typing import NamedTuple

from odradek.errors import OdradekError
from odradek.sasl.scram_credentials import HASHES, MAX_ITERATIONS, MIN_ITERATIONS, ScramCredential

_WHOLE = re.compile(r"(?P<mechanism>[A-Z0-9-]+)=\[(?P<fields>.*)\]", re.DOTALL)
_FIELD = re.compile(
    r'\s*(?P<name>\w+)=(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^,"]*))\s*(?:,|$)', re.DOTALL
)
_KNOWN = {"name", "password", "iterations"}


class ScramWordError(OdradekError):
    """A user that cannot be read; the message does not show it."""


class NewUser(NamedTuple):
    """A user who can log in by `mechanism`."""

    name: str
    mechanism: str
    credential: ScramCredential


def read_user(text: str) -> NewUser:
    """Read a user. Takes milliseconds.

    Raises:
        ScramWordError: it is none.
    """
    whole = _WHOLE.fullmatch(text.strip())
    if whole is None or whole["mechanism"] not in HASHES:
        raise ScramWordError(
            f"a user begins with one of {', '.join(HASHES)}, as SCRAM-SHA-256=[name=…,password=…]"
        )
    fields: dict[str, str] = {}
    position = 0
    while position < len(whole["fields"]):
        field = _FIELD.match(whole["fields"], position)
        if field is None or field["name"] not in _KNOWN or field["name"] in fields:
            raise ScramWordError(
                "a user has name, password, and perhaps iterations, each once, with commas between"
            )
        quoted = field["quoted"]
        fields[field["name"]] = field["plain"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        position = field.end()
    name, password = fields.get("name", ""), fields.get("password", "")
    if not name or not password:
        raise ScramWordError("a user has a name and a password")
    try:
        iterations = int(fields.get("iterations", MIN_ITERATIONS))
    except ValueError:
        iterations = 0
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise ScramWordError(f"iterations are from {MIN_ITERATIONS} to {MAX_ITERATIONS}")
    mechanism = whole["mechanism"]
    return NewUser(name, mechanism, ScramCredential.of_password(mechanism, password, iterations))

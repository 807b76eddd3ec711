"""A client of Confluent's schema registry: its REST interface, as far as readers and writers of records
need it.

Schemas never change under their id, so what was fetched is kept for as long as the process lives; the newest
version of a subject is asked for every time.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from odradek.spark.formats.errors import RegistryError, UnknownSchemaError
from odradek.spark.formats.options import RegistryOptions

if TYPE_CHECKING:
    import ssl
    import urllib.error
    import urllib.request

logger = logging.getLogger(__name__)

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_TRIES = 4
_MOST_BYTES = 16 << 20


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema under its id.

    Attributes:
        kind: AVRO, PROTOBUF or JSON.
        references: (name, schema) of those that it uses, those first that others use.
        version: of the subject it was looked up in, or 0.
    """

    id: int
    kind: str
    text: str
    references: tuple[tuple[str, str], ...] = ()
    version: int = 0


def frame_of(schema_id: int) -> bytes:
    """The bytes before a record that say by which schema it was written (Confluent's wire format)."""
    return b"\x00" + schema_id.to_bytes(4, "big")


_by_id: dict[tuple[int, RegistryOptions], dict[int, RegisteredSchema]] = {}
"""What was fetched, by process, and by who asks whom: what one login was shown is not shown to another."""


class RegistryClient:
    """One registry.

    Args:
        options: where it is.
        sleep: called with seconds between two tries.

    Raises:
        UnknownSchemaError: by every method, for what the registry does not have.
        RegistryError: by every method, when the registry cannot be asked.
    """

    def __init__(self, options: RegistryOptions, sleep: Callable[[float], None] = time.sleep) -> None:
        self._options = options
        self._sleep = sleep
        self._known = _by_id.setdefault((os.getpid(), options), {})
        self._context: ssl.SSLContext | None = None

    def by_id(self, schema_id: int, *, serialized: bool = False) -> RegisteredSchema:
        """The schema of an id; `serialized`: a protobuf one as its descriptor, if it can be had."""
        schema = self._known.get(schema_id)
        if schema is None:
            resource = f"the schema with id {schema_id}"
            answer = self._schema(f"/schemas/ids/{schema_id}", resource, serialized)
            schema = self._known[schema_id] = self._registered(answer, serialized, schema_id)
        return schema

    def versions(self, subject: str) -> list[int]:
        """The versions of a subject, the newest first."""
        answer = self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions", f"the subject '{subject}'")
        return sorted(answer, reverse=True)

    def version(self, subject: str, version: str | int, *, serialized: bool = False) -> RegisteredSchema:
        """A version of a subject; `latest` is the newest."""
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
        resource = f"version {version} of the subject '{subject}'"
        return self._registered(self._schema(path, resource, serialized), serialized)

    def register(self, subject: str, kind: str, text: str) -> int:
        """Register a schema, which may be there already; return its id."""
        body = {"schema": text, **({"schemaType": kind} if kind != "AVRO" else {})}
        path = f"/subjects/{quote(subject, safe='')}/versions"
        answer = self._ask("POST", path, f"a new schema for the subject '{subject}'", body)
        return int(answer["id"])

    def _registered(self, answer: Any, serialized: bool, schema_id: int | None = None) -> RegisteredSchema:
        try:
            references: dict[str, str] = {}
            self._collect(answer.get("references", ()), serialized, references)
            return RegisteredSchema(
                int(answer["id"]) if schema_id is None else schema_id,
                _text(answer.get("schemaType", "AVRO")),
                _text(answer["schema"]),
                tuple(references.items()),
                int(answer.get("version", 0)),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise RegistryError(
                f"{self._where()} did not answer as a schema registry does: {problem!r}"
            ) from None

    def _collect(
        self, references: Sequence[Any], serialized: bool, texts: dict[str, str], depth: int = 0
    ) -> None:
        if depth > 50:
            raise RegistryError(f"schemas of {self._where()} refer to each other without end")
        for reference in references:
            name, subject, version = (
                _text(reference["name"]),
                _text(reference["subject"]),
                int(reference["version"]),
            )
            if name in texts:
                continue
            path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
            answer = self._schema(path, f"version {version} of '{subject}'", serialized)
            self._collect(answer.get("references", ()), serialized, texts, depth + 1)
            texts[name] = _text(answer["schema"])

    def _schema(self, path: str, resource: str, serialized: bool) -> Any:
        """The answer about a schema; `serialized`: with the descriptor in base64, if it can be had.

        Registries differ: Apicurio 3.3 answers `format=serialized` with the descriptor's bytes as text, which
        loses some, and with HTTP 500 for a schema that was registered as base64. So it is asked only about
        a schema that is text, and text it stays unless the answer is base64.
        """
        answer = self._ask("GET", path, resource)
        if not serialized or not isinstance(answer, dict) or _is_base64(answer.get("schema")):
            return answer
        other = self._ask("GET", f"{path}?format=serialized", resource)
        return other if isinstance(other, dict) and _is_base64(other.get("schema")) else answer

    def _ask(self, method: str, path: str, resource: str, body: Any = None) -> Any:
        """The answer of the first address that gives one."""
        problem: Exception | None = None
        for attempt in range(_TRIES):
            for url in self._options.urls:
                try:
                    return self._once(method, url, path, resource, body)
                except (OSError, ValueError) as failed:
                    problem = failed
            if attempt < _TRIES - 1:
                logger.warning("%s did not answer: %s", self._where(), problem)
                self._sleep(0.2 * 2**attempt)
        raise RegistryError(
            f"{resource} could not be had from {self._where()}: {problem}. Check the option "
            "value.schema.registry.url or key.schema.registry.url"
        ) from problem

    def _once(self, method: str, url: str, path: str, resource: str, body: Any) -> Any:
        # Every worker imports this module, most of them for formats without a registry.
        import urllib.error
        import urllib.request

        address, user_info = _split_user(url, self._options.user_info)
        headers = {"Accept": f"{CONTENT_TYPE}, application/json"}
        if user_info:
            headers["Authorization"] = "Basic " + base64.b64encode(user_info.encode()).decode()
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = CONTENT_TYPE
        request = urllib.request.Request(address + path, data, headers, method=method)
        # One that is asked in clear may lead on to https.
        context = self._ssl_context() if address.startswith("https:") or self._options.ssl else None
        try:
            timeout_s = self._options.timeout_ms / 1000
            with self._opener(context).open(request, timeout=timeout_s) as answer:
                text = answer.read(_MOST_BYTES + 1)
        except urllib.error.HTTPError as refused:
            with refused:
                reason = _message(refused)
            if refused.code >= 500 or refused.code == 429:
                raise OSError(f"HTTP {refused.code} {reason}") from None
            if refused.code == 404:
                raise UnknownSchemaError(f"{self._where()} does not have {resource}: {reason}") from None
            if refused.code in (401, 403):
                reason += _remedy(address, refused.filename)
            raise RegistryError(f"{self._where()} refused {resource}: HTTP {refused.code} {reason}") from None
        except OSError as failed:
            raise OSError(_told_of_tls(failed) or str(failed)) from failed
        if len(text) > _MOST_BYTES:
            raise RegistryError(f"{self._where()} answered with more than {_MOST_BYTES >> 20} MiB")
        return json.loads(text)

    @staticmethod
    def _opener(context: ssl.SSLContext | None) -> urllib.request.OpenerDirector:
        import urllib.request

        from odradek.spark.formats.redirects import Redirects

        handlers: list[urllib.request.BaseHandler] = [Redirects()]
        if context is not None:
            handlers.append(urllib.request.HTTPSHandler(context=context))
        return urllib.request.build_opener(*handlers)

    def _ssl_context(self) -> ssl.SSLContext:
        """Return the context that https is spoken with, made once.

        Raises:
            RegistryError: the options cannot be used.
        """
        if self._context is None:
            from odradek.security.ssl_configs import TlsConfigError
            from odradek.security.ssl_contexts import client_context

            try:
                self._context = client_context(dict(self._options.ssl))
            except TlsConfigError as problem:
                raise RegistryError(f"schema.registry.{problem}") from problem
        return self._context

    def _where(self) -> str:
        return "the schema registry at " + ", ".join(_split_user(url, "")[0] for url in self._options.urls)


def _text(value: Any) -> str:
    """Return a value of an answer that has to be text.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _is_base64(text: Any) -> bool:
    """Return whether a schema is base64; none in protobuf's language is, for its spaces and semicolons."""
    try:
        base64.b64decode(text, validate=True)
    except (ValueError, TypeError):
        return False
    return True


def _remedy(address: str, answered: str) -> str:
    """Return what to do about a refused login, by who was asked and who has answered."""
    from odradek.spark.formats.redirects import origin_of

    if origin_of(address) != origin_of(answered):
        return (
            f". {origin_of(answered)} has answered, to which it redirects, and which is not shown the "
            "password: if it may see it, name it in the option value.schema.registry.url"
        )
    return ". Check the option value.schema.registry.basic.auth.user.info (user:password)"


def _told_of_tls(failed: OSError) -> str | None:
    """Return what a failed handshake may be due to; None for anything else that has failed."""
    import ssl

    # A refusal of our certificate may come with the first read (TLS 1.3): its own `reason` is a word.
    cause = failed if isinstance(failed, ssl.SSLError) else getattr(failed, "reason", failed)
    if not isinstance(cause, ssl.SSLError):
        return None
    from odradek.security.explain import explain

    return f"TLS failed: {explain(cause)}. Certificates are options too: value.schema.registry.ssl.…"


def _message(refused: urllib.error.HTTPError) -> str:
    try:
        answer = json.loads(refused.read(65_536))
        return f"{answer['message']} (error_code {answer['error_code']})"
    except (OSError, ValueError, KeyError, TypeError):
        return str(refused.reason)


def _split_user(url: str, user_info: str) -> tuple[str, str]:
    """An address without the user that may be in it, and that user."""
    parts = urlsplit(url.rstrip("/"))
    inside, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=host)), user_info or unquote(inside)

"""A schema registry inside a test: `with SchemaRegistry() as registry: registry.url`.

It speaks as much of the REST interface of Confluent's as serializers and deserializers use, keeps
everything in memory, and takes every schema: it does not look inside, and knows no rules of compatibility.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from odradek.testing.security import Security

_MOST_BYTES = 16 << 20


@dataclass
class _Store:
    """The schemas that were registered: by id from 1 on, and by subject the ids of its versions."""

    schemas: list[dict[str, Any]] = field(default_factory=list)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def register(self, subject: str, body: dict[str, Any]) -> int:
        schema = {
            "schema": body["schema"],
            "schemaType": body.get("schemaType", "AVRO"),
            "references": body.get("references", []),
        }
        with self.lock:
            if schema not in self.schemas:
                self.schemas.append(schema)
            number = self.schemas.index(schema) + 1
            versions = self.subjects.setdefault(subject, [])
            if number not in versions:
                versions.append(number)
            return number


class _RefusedError(Exception):
    """An answer that is an error: HTTP's status, the registry's code, and what it says."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class SchemaRegistry:
    """A registry on a port of 127.0.0.1.

    Args:
        user_info: `user:password` that requests have to bring (HTTP's basic authentication), or empty.
        security: with `tls` or a `client_auth`, whose certificates it has, and whom it lets in (https); None:
            http.

    Attributes:
        url: where it is.
        requests: what it was asked, as "GET /subjects".
    """

    def __init__(self, user_info: str = "", security: Security | None = None) -> None:
        self._store = _Store()
        self.requests: list[str] = []
        self.failures = 0
        """So many of the next requests are answered with HTTP 503."""
        self._security = security
        self._user_info = user_info
        self._server = _Server(("127.0.0.1", 0), _handler(self, self._store, user_info))
        scheme = "http"
        if security is not None and security.uses_tls:
            from odradek.security.ssl_contexts import server_context

            scheme = "https"
            # Each connection shakes hands in its own thread.
            configs = {**security.server_configs(), "ssl.client.auth": security.client_auth}
            self._server.socket = server_context(configs).wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), name="schema-registry", daemon=True
        )
        self._thread.start()

    def register(self, subject: str, schema: str, kind: str = "AVRO", references: Any = ()) -> int:
        """Register a schema (AVRO, PROTOBUF, JSON) as the subject's newest version; return its id.

        `references`: those of the REST interface, with name, subject and version.
        """
        body = {"schema": schema, "schemaType": kind, "references": list(references)}
        return self._store.register(subject, body)

    def options(self, client: str | None = None) -> dict[str, str]:
        """The options of a Spark source or sink that uses it: address, login, certificates as PEM.

        `client`: the name in the certificate that is shown, where clients have to show some.
        """
        options = {"schema.registry.url": self.url}
        if self._user_info:
            options["schema.registry.basic.auth.user.info"] = self._user_info
        if self._security is not None and self._security.uses_tls:
            given = self._security.authority.trust()
            if client is not None:
                given |= self._security.certificate(client).configs()
            options |= {f"schema.registry.{name}": value for name, value in given.items()}
        return options

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> SchemaRegistry:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients hang up, and tests try bad handshakes."""


def _handler(registry: SchemaRegistry, store: _Store, user_info: str) -> type[BaseHTTPRequestHandler]:
    wanted = "Basic " + base64.b64encode(user_info.encode()).decode() if user_info else None

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            self._answer(self.rfile.read(min(length, _MOST_BYTES)))

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

        def _answer(self, body: bytes | None) -> None:
            registry.requests.append(f"{self.command} {self.path}")
            status, content = 200, None
            try:
                if wanted is not None and self.headers.get("Authorization") != wanted:
                    raise _RefusedError(401, 401, "Unauthorized")
                if registry.failures:
                    registry.failures -= 1
                    raise _RefusedError(503, 50301, "not now")
                content = _found(store, self.command, self.path, body)
            except _RefusedError as refused:
                status, content = refused.status, {"error_code": refused.code, "message": str(refused)}
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler


def _found(store: _Store, command: str, target: str, body: bytes | None) -> Any:
    parts = urlsplit(target)
    words = [unquote(word) for word in parts.path.strip("/").split("/")]
    if command == "POST":
        return _posted(store, words, body or b"")
    if words == ["subjects"]:
        return sorted(store.subjects)
    if words[:2] == ["schemas", "ids"] and len(words) == 3:
        return _of_id(store, words[2])
    if words[0] == "subjects" and words[2:3] == ["versions"] and len(words) in (3, 4):
        ids = store.subjects.get(words[1])
        if ids is None:
            raise _RefusedError(404, 40401, f"Subject '{words[1]}' not found.")
        if len(words) == 3:
            return list(range(1, len(ids) + 1))
        return _of_version(store, words[1], ids, words[3])
    raise _RefusedError(404, 404, "HTTP 404 Not Found")


def _posted(store: _Store, words: list[str], body: bytes) -> Any:
    try:
        given = json.loads(body)
        given["schema"]
    except (ValueError, KeyError, TypeError):
        raise _RefusedError(422, 42201, "Invalid schema") from None
    if words[0] == "subjects" and len(words) == 3 and words[2] == "versions":
        return {"id": store.register(words[1], given)}
    raise _RefusedError(404, 404, "HTTP 404 Not Found")


def _of_id(store: _Store, text: str) -> dict[str, Any]:
    number = int(text) if re.fullmatch(r"\d{1,9}", text) else 0
    if not 0 < number <= len(store.schemas):
        raise _RefusedError(404, 40403, "Schema not found")
    return _shown(store.schemas[number - 1])


def _of_version(store: _Store, subject: str, ids: list[int], text: str) -> dict[str, Any]:
    version = len(ids) if text in ("latest", "-1") else int(text) if text.isdigit() else 0
    if not 0 < version <= len(ids):
        raise _RefusedError(404, 40402, f"Version {text} not found.")
    number = ids[version - 1]
    shown = _shown(store.schemas[number - 1])
    return {"subject": subject, "version": version, "id": number, **shown}


def _shown(schema: dict[str, Any]) -> dict[str, Any]:
    """As the registry shows it: that it is Avro, and no references, are left out.

    A protobuf schema is shown as it was given, be it text or base64: there is no compiler here.
    """
    shown = dict(schema)
    if shown["schemaType"] == "AVRO":
        del shown["schemaType"]
    if not shown["references"]:
        del shown["references"]
    return shown

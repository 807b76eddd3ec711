"""A schema registry inside a test: `with SchemaRegistry() as registry: registry.url`.

It is the registry of `odradek.schema_registry`, in memory or in the topic of a broker, in this process.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from odradek.schema_registry.registry import Registry
from odradek.schema_registry.service import CONTENT_TYPE, MemoryStore, Replay, Service, Store
from odradek.util.http_routes import Request, Response
from odradek.util.http_server import HttpServer

if TYPE_CHECKING:
    from odradek.testing.security import Security


class SchemaRegistry:
    """A registry on a port of 127.0.0.1.

    Args:
        user_info: `user:password` that requests have to bring (HTTP's basic authentication), or empty.
        security: with `tls` or a `client_auth`, whose certificates it has, and whom it lets in (https); None:
            http.
        compatibility: the level where no config says one. A registry that nobody has configured has BACKWARD:
            say so to see in a test what would be refused.
        store: configs of clients (`Broker.client_configs()`): schemas are kept in the topic `_schemas`. None:
            in memory.

    Attributes:
        url: where it is.
        requests: what it was asked, as "GET /subjects".
    """

    def __init__(
        self,
        user_info: str = "",
        security: Security | None = None,
        *,
        compatibility: str = "NONE",
        store: Mapping[str, Any] | None = None,
    ) -> None:
        self.requests: list[str] = []
        self.failures = 0
        """So many of the next requests are answered with HTTP 503."""
        self._security = security
        self._user_info = user_info
        context = None
        if security is not None and security.uses_tls:
            from odradek.security.ssl_contexts import server_context

            context = server_context({**security.server_configs(), "ssl.client.auth": security.client_auth})
        self._service = Service(Registry(compatibility), lambda replay: _store(replay, store))
        self._http = HttpServer(
            "127.0.0.1",
            0,
            self._handle,
            content_type=CONTENT_TYPE,
            context=context,
            user_info=user_info,
            on_request=lambda request: self.requests.append(f"{request.method} {request.target}"),
        )
        self.url = self._http.url

    def _handle(self, request: Request) -> Response:
        if self.failures:
            self.failures -= 1
            return Response(503, {"error_code": 50301, "message": "not now"})
        return self._service.handle(request)

    def register(self, subject: str, schema: str, kind: str = "AVRO", references: Any = ()) -> int:
        """Register a schema (AVRO, PROTOBUF, JSON) as the subject's newest version; return its id.

        `references`: those of the REST interface, with name, subject and version.

        Raises:
            RestException: the registry refuses it.
        """
        body = {"schema": schema, "schemaType": kind, "references": list(references)}
        target = f"/subjects/{quote(subject, safe='')}/versions"
        answer = self._service.answer(Request("POST", target, json.dumps(body).encode()))
        return int(answer["id"])

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
        self._http.close()
        self._service.close()

    def __enter__(self) -> SchemaRegistry:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _store(replay: Replay, configs: Mapping[str, Any] | None) -> Store:
    if configs is None:
        return MemoryStore(replay)
    from odradek.schema_registry.kafka_store import KafkaStore

    return KafkaStore(replay, configs)

"""The broker's request log: one JSON line per answered request, like Kafka's `kafka.request.logger`.

Off by default, and then it costs one attribute check per request. Fields of a line:

    time_ms         when the request was taken up, epoch milliseconds
    api, version    Kafka's API name, and the version
    correlation_id, client_id, client_host, client_port, principal, listener
    request_bytes, response_bytes
                    without and with the size prefix; response 0 when there is none
    total_ms        from taking up to having the answer
    closed          the connection was closed instead of (or after) answering
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from odradek.cluster.configs.config_def import ConfigError

if TYPE_CHECKING:
    from odradek.broker.requests.peer import Peer
    from odradek.wire.api import ApiKey
    from odradek.wire.headers import RequestHeader


class LoggedRequest(Protocol):
    """A request as it is logged; `odradek.broker.requests.context.RequestContext` says what each field is."""

    header: RequestHeader
    api_version: int
    now_ms: int
    peer: Peer

    @property
    def client_id(self) -> str:
        """The client id of the header."""
        ...


def open_request_log(path: Path) -> RequestLog:
    """Open a request log.

    Raises:
        ConfigError: the file cannot be written.
    """
    try:
        return RequestLog(path)
    except OSError as error:
        raise ConfigError(f"the request log {path} cannot be written: {error}") from error


class RequestLog:
    """Appends lines to a file."""

    def __init__(self, path: Path) -> None:
        """
        Args:
            path: the file; appended to when it exists. Its folder must exist.

        Raises:
            OSError: it cannot be written.
        """
        self.path = path
        # Line-buffered: whoever follows the file sees a request as soon as it was answered.
        self._file = path.open("a", encoding="utf-8", buffering=1)

    def write(
        self,
        request: LoggedRequest,
        api_key: ApiKey,
        request_bytes: int,
        response_bytes: int,
        elapsed_ms: float,
        *,
        closed: bool,
    ) -> None:
        """Add one request. A full disk loses the line, never the request."""
        line = json.dumps(
            {
                "time_ms": request.now_ms,
                "api": api_key.api_name,
                "version": request.api_version,
                "correlation_id": request.header.correlation_id,
                "client_id": request.client_id,
                "client_host": request.peer.host,
                "client_port": request.peer.port,
                "principal": request.peer.principal,
                "listener": request.peer.listener_name,
                "request_bytes": request_bytes,
                "response_bytes": response_bytes,
                "total_ms": round(elapsed_ms, 3),
                "closed": closed,
            },
            ensure_ascii=False,
        )
        try:
            self._file.write(line + "\n")
        except OSError:
            return

    def close(self) -> None:
        """Close the file."""
        try:
            self._file.close()
        except OSError:
            return

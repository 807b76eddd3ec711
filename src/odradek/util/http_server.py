"""HTTP with JSON around a service: a thread for each connection, TLS and a login if they are asked for."""

from __future__ import annotations

import base64
import hmac
import logging
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from odradek.util.hosts import host_and_port
from odradek.util.http_routes import Request, Response
from odradek.util.json_text import compact

logger = logging.getLogger(__name__)

MOST_BYTES = 16 << 20
_IDLE_S = 120
"""So long may a connection say nothing."""
_POLL_S = 0.02
_MOST_CONNECTIONS = 1000
"""Each has a thread; beyond these, who connects is hung up on."""


class HttpServer:
    """A server on a port.

    Args:
        host, port: where to listen; port 0 takes a free one.
        handle: answers requests, in many threads.
        content_type: of answers.
        most_bytes: so many has a request's body at most.
        context: TLS; None for http.
        user_info: `user:password` that requests have to bring (HTTP's basic authentication), or empty.
        on_request: told of each request, before its login is looked at.

    Attributes:
        url: where it is.
    """

    def __init__(
        self,
        host: str,
        port: int,
        handle: Callable[[Request], Response],
        *,
        content_type: str = "application/json",
        most_bytes: int = MOST_BYTES,
        context: ssl.SSLContext | None = None,
        user_info: str = "",
        on_request: Callable[[Request], None] = lambda request: None,
    ) -> None:
        self._server = _Server(
            (host, port), _handler(handle, content_type, most_bytes, user_info, on_request)
        )
        scheme = "http"
        if context is not None:
            scheme = "https"
            # Each connection shakes hands in its own thread.
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.url = f"{scheme}://{host_and_port(host, self._server.server_port)}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_S,), name="http", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        if ":" in address[0]:
            import socket

            self.address_family = socket.AF_INET6
        self._free = threading.Semaphore(_MOST_CONNECTIONS)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own, unless there are too many."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            logger.warning("%s is hung up on: there are %d connections", client_address, _MOST_CONNECTIONS)
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection to its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def server_bind(self) -> None:
        """Bind without asking who the address is: a name server that does not answer holds the start."""
        import socketserver

        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """Say little: clients hang up, and fail to shake hands."""
        logger.debug("a connection of %s has ended", client_address, exc_info=True)


def _handler(
    handle: Callable[[Request], Response],
    content_type: str,
    most_bytes: int,
    user_info: str,
    on_request: Callable[[Request], None],
) -> type[BaseHTTPRequestHandler]:
    wanted = b"Basic " + base64.b64encode(user_info.encode()) if user_info else None

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = _IDLE_S

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def do_PUT(self) -> None:
            self._answer()

        def do_DELETE(self) -> None:
            self._answer()

        def log_message(self, format: str, *args: Any) -> None:
            logger.debug(format, *args)

        def _answer(self) -> None:
            body = self._body()
            if body is None:
                return
            request = Request(self.command, self.path, body, dict(self.headers.items()))
            on_request(request)
            given = self.headers.get("Authorization", "").encode()
            if wanted is not None and not hmac.compare_digest(given, wanted):
                response = Response(401, {"error_code": 401, "message": "Unauthorized"})
            else:
                response = handle(request)
            self._send(response)

        def _body(self) -> bytes | None:
            """Return the body; None where the connection ends instead."""
            length = self.headers.get("Content-Length", "0")
            if not (length.isascii() and length.isdigit()) or "Transfer-Encoding" in self.headers:
                self.close_connection = True
                self._send(Response(411, {"error_code": 411, "message": "A Content-Length is needed"}))
                return None
            if len(length) > 20 or int(length) > most_bytes:
                self.close_connection = True
                message = f"A request has {most_bytes} bytes at most"
                self._send(Response(413, {"error_code": 413, "message": message}))
                return None
            return self.rfile.read(int(length))

        def _send(self, response: Response) -> None:
            content = response.content
            data = content if isinstance(content, bytes) else compact(content).encode(errors="replace")
            self.send_response(response.status)
            if response.status == 401:
                self.send_header("WWW-Authenticate", 'Basic realm="odradek"')
            self.send_header("Content-Type", response.content_type or content_type)
            for name, text in response.headers.items():
                self.send_header(name, text)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler

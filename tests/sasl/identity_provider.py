"""An identity provider on loopback, as far as all of them are alike."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

from waiting import joined


class IdentityHandler(BaseHTTPRequestHandler):
    """Answers requests; what, is for `get` and `post` to say."""

    def do_GET(self) -> None:
        self.get()

    def do_POST(self) -> None:
        self.post()

    def get(self) -> None:
        """Answer a GET."""
        self.send_error(405)

    def post(self) -> None:
        """Answer a POST."""
        self.send_error(405)

    def form(self) -> dict[str, str]:
        """The form that was posted."""
        return dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))

    def answer(self, content: Any) -> None:
        """Answer with JSON."""
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def serve(handler: type[IdentityHandler]) -> Iterator[str]:
    """Serve; the address comes without a path."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=partial(server.serve_forever, 0.01))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        joined(thread)
        server.server_close()

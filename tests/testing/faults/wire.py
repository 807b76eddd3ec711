"""A client of one connection that writes and reads single messages, in any version."""

from __future__ import annotations

import socket
from typing import Any, Self

from odradek.wire.headers import decode_response, encode_request
from waiting import WITHIN_S


class Wire:
    """One connection to a broker. It is closed at the end of a `with` block.

    Reading waits for `WITHIN_S` seconds, and raises ConnectionError where the broker has closed.
    """

    def __init__(self, port: int, client_id: str = "test") -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), WITHIN_S)
        self._client_id = client_id
        self._sent = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, request: Any, version: int) -> None:
        self._sent += 1
        parts = encode_request(request.API_KEY, version, self._sent, self._client_id, request)
        self._socket.sendall(b"".join(parts))

    def receive(self, request: Any, version: int) -> Any:
        size = int.from_bytes(self._read(4), "big")
        return decode_response(self._read(size), request.API_KEY, version)[1]

    def ask(self, request: Any, version: int) -> Any:
        self.send(request, version)
        return self.receive(request, version)

    def rest(self) -> bytes:
        """All that comes until the broker closes the connection."""
        data = b""
        while more := self._receive(65536):
            data += more
        return data

    def has_nothing(self) -> bool:
        """Return whether nothing has come, and the connection is there."""
        self._socket.setblocking(False)
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        finally:
            self._socket.settimeout(WITHIN_S)
        return False

    def _receive(self, size: int) -> bytes:
        try:
            return self._socket.recv(size)
        except ConnectionResetError:
            return b""

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._receive(size - len(data))
            if not more:
                raise ConnectionError("the broker has closed the connection")
            data += more
        return data

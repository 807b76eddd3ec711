"""One request to one broker, whoever it is, on a connection of its own."""

from __future__ import annotations

import socket
from typing import Any

from odradek.wire.headers import decode_response, encode_request

LIMIT_S = 60


def ask(port: int, request: Any, version: int) -> Any:
    """The answer to a request, read as that version's.

    Raises:
        ConnectionError: the broker closes the connection instead.
    """
    key = request.API_KEY
    with socket.create_connection(("127.0.0.1", port), LIMIT_S) as connection:
        connection.sendall(b"".join(encode_request(key, version, 1, "test", request)))
        frame = _read(connection, int.from_bytes(_read(connection, 4), "big"))
    return decode_response(frame, key, version)[1]


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError("the broker has closed the connection")
        data += more
    return data

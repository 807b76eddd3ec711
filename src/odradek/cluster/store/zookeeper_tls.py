"""TLS to ZooKeeper: kazoo's sockets, encrypted with a context of ours.

kazoo has TLS of its own, which reads certificates from files, PEM alone, and waits for the network while an
answer is here already: OpenSSL decrypts a record at a time, and `select` knows nothing of the rest.
"""

from __future__ import annotations

import ssl
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler


class TlsHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """Makes the connections of one kazoo client."""

    def __init__(self, context: ssl.SSLContext) -> None:
        """
        Args:
            context: says who is trusted, and who we are.
        """
        super().__init__()
        self._context = context

    def create_connection(self, *args: Any, **options: Any) -> Any:  # noqa: ARG002
        """Connect and shake hands, within `timeout` seconds.

        Raises:
            OSError: nobody answers in time, or the handshake fails.
        """
        host = options.pop("hostname", None)
        address, timeout = options["address"], options.get("timeout")
        plain = super().create_connection(address=address, timeout=timeout)
        plain.settimeout(timeout)
        return self._context.wrap_socket(plain, server_hostname=host or address[0])

    def select(self, readable: Any, *others: Any) -> Any:
        """Wait, unless decrypted bytes are here already."""
        ready = [
            readable_socket
            for readable_socket in readable
            if isinstance(readable_socket, ssl.SSLSocket) and readable_socket.pending()
        ]
        return (ready, [], []) if ready else super().select(readable, *others)

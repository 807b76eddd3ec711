"""Counts of what goes over a client's connections, for its metrics."""

from __future__ import annotations


class Traffic:
    """The traffic of one connection, or of several together; the counts only grow.

    Attributes:
        connections_made, connections_closed: how many.
        requests, responses: with and without an answer.
        bytes_out, bytes_in: requests and responses with their lengths, before TLS.
    """

    __slots__ = ("bytes_in", "bytes_out", "connections_closed", "connections_made", "requests", "responses")

    def __init__(self) -> None:
        self.connections_made = 0
        self.connections_closed = 0
        self.requests = 0
        self.responses = 0
        self.bytes_out = 0
        self.bytes_in = 0

    def add(self, other: Traffic) -> None:
        """Count another's, too."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

"""How the matrix is asked of any broker, and what of the answer counts."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.primitives import ZERO_UUID

from .acl_matrix import GROUPS, IDS, OF_GROUPS, OF_IDS, OF_TOPICS, TOPICS, Asked, Case
from .acl_matrix_users import HOME, acls

LIMIT_S = 30


class Connection:
    """One connection to a broker."""

    def __init__(self, port: int, host: str = HOME) -> None:
        self._socket = socket.create_connection((HOME, port), LIMIT_S, (host, 0))
        self._number = 0

    @property
    def name(self) -> tuple[str, int]:
        """Its end here."""
        name: tuple[str, int] = self._socket.getsockname()
        return name

    def call(self, request: Any, version: int) -> Any:
        """The answer to a request.

        Raises:
            ConnectionError: the broker closes the connection instead.
        """
        self._number += 1
        key = request.API_KEY
        self._socket.sendall(b"".join(encode_request(key, version, self._number, "matrix", request)))
        frame = self._read(int.from_bytes(self._read(4), "big"))
        return decode_response(frame, key, version)[1]

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise ConnectionError("the broker has closed the connection")
            data += more
        return data

    def close(self) -> None:
        """Close it."""
        self._socket.close()


class Side:
    """A broker that is asked, with a connection of each user from each address.

    Args:
        connect: makes one of a user's.
        admin: one of somebody who may do everything.

    Attributes:
        admin: as given.
    """

    def __init__(self, connect: Callable[[str, str], Connection], admin: Connection) -> None:
        self._connect = connect
        self._connections: dict[tuple[str, str], Connection] = {}
        self.admin = admin
        self._ids: dict[str, bytes] = {}

    def prepare(self) -> None:
        """Create topics, groups, transactional ids and ACLs."""
        admin = self.admin
        topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in TOPICS]
        self._settled(Asked(ApiKey.CREATE_TOPICS, 7, lambda *_: {"topics": topics, "timeout_ms": 30_000}), 36)
        for name in TOPICS:
            self._settled(OF_TOPICS[0], resource=name)
        self._ids = {
            one.name: one.topic_id
            for one in admin.call(
                Asked(ApiKey.METADATA, 12, lambda *_: {"topics": None}).request("", b""), 12
            ).topics
        }
        for group in GROUPS:
            self._settled(OF_GROUPS[11], resource=group)
            self._settled(OF_GROUPS[4], resource=group)
        for name in IDS:
            self._settled(OF_IDS[2], resource=name)
            self._settled(OF_IDS[1], resource=name)
        creations = [
            {
                "resource_type": int(pattern.resource_type),
                "resource_name": pattern.name,
                "resource_pattern_type": int(pattern.pattern_type),
                "principal": entry.principal,
                "host": entry.host,
                "operation": int(entry.operation),
                "permission_type": int(entry.permission_type),
            }
            for pattern, entry in acls()
        ]
        self._settled(Asked(ApiKey.CREATE_ACLS, 3, lambda *_: {"creations": creations}))

    def _settled(self, asked: Asked, *good: int, resource: str = "") -> None:
        """Ask until it is done: coordinators and leaders take their time."""
        for tried in range(1200):
            time.sleep(0.05 if tried else 0)
            answer = self.admin.call(asked.request(resource, ZERO_UUID), asked.version).to_json(asked.version)
            codes = set(_codes(answer))
            if codes <= {0, *good}:
                return
            assert codes <= _PASSING, (asked.label, resource, codes)
        raise AssertionError(f"{asked.label} {resource} is never done: {codes}")

    def ask(self, case: Case) -> Any:
        """What is answered, reduced; `closed` where the connection is."""
        key = (case.user, case.host)
        request = case.asked.request(case.resource, self._ids.get(case.resource, b"\x01" * 16))
        while True:
            connection = self._connections.get(key)
            if connection is None:
                connection = self._connections[key] = self._connect(*key)
            try:
                answer = connection.call(request, case.asked.version)
            except ConnectionError:
                self._connections.pop(key).close()
                return "closed"
            except TimeoutError as error:
                raise AssertionError(f"no answer to {case.label}") from error
            found = answer.to_json(case.asked.version)
            if not _AGAIN.intersection(_codes(found)):
                return reduced(found)

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self.admin.close()


_AGAIN = {
    int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    int(ErrorCode.COORDINATOR_NOT_AVAILABLE),
    int(ErrorCode.CONCURRENT_TRANSACTIONS),
}
_PASSING = {
    *_AGAIN,
    int(ErrorCode.NOT_COORDINATOR),
    int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    int(ErrorCode.NOT_LEADER_OR_FOLLOWER),
    int(ErrorCode.LEADER_NOT_AVAILABLE),
}
_SHOWN = {
    *("name", "topicName", "topic", "groupId", "resourceName", "transactionalId", "key", "errorCode"),
    *("topicAuthorizedOperations", "clusterAuthorizedOperations", "authorizedOperations", "user"),
}
"""What the matrix is about: errors, names, what is said to be authorized."""


def _codes(answer: Any) -> Iterator[int]:
    if isinstance(answer, list):
        for one in answer:
            yield from _codes(one)
    elif isinstance(answer, dict):
        for key, value in answer.items():
            if key == "errorCode":
                yield value
            else:
                yield from _codes(value)


def reduced(answer: Any) -> Any:
    """Errors, names and authorized operations of an answer; lists in one order."""
    if isinstance(answer, list):
        found = [one for one in map(reduced, answer) if one not in ({}, [])]
        return sorted(found, key=repr)
    if isinstance(answer, dict):
        kept = {}
        for key, value in answer.items():
            if (key in _SHOWN or key.endswith("ErrorCode")) and not isinstance(value, (list, dict)):
                kept[key] = value
            elif isinstance(value, (list, dict)) and key not in ("configs", "nodeEndpoints", "brokers"):
                below = reduced(value)
                if below:
                    kept[key] = below
        return kept
    return {}

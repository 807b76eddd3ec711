"""The requests that a transactional producer has due, in which order they leave, and who is to be asked."""

from __future__ import annotations

from enum import IntEnum

from odradek.client.core.transactions.requests import CoordinatorKind, TxnRequest
from odradek.wire.api import ApiKey


class Priority(IntEnum):
    """In which order requests that wait are sent. The end comes last, but for a new epoch that it needs."""

    FIND = 0
    INIT = 1
    ADD = 2
    END = 3
    BUMP = 4


class RequestQueue:
    """The requests that are due, and the coordinators. One request is on its way at a time.

    Args:
        transactional_id: by which the transaction coordinator is found.

    Attributes:
        on_its_way: has been sent and not been answered.
    """

    def __init__(self, transactional_id: str) -> None:
        self.on_its_way: TxnRequest | None = None
        self._transactional_id = transactional_id
        self._due: list[TxnRequest] = []
        self._coordinators: dict[CoordinatorKind, tuple[str, int]] = {}

    def add(self, request: TxnRequest) -> None:
        """The request is due; it goes to the transaction coordinator unless it says otherwise."""
        if request.coordinator is None and request.api is not ApiKey.FIND_COORDINATOR:
            request.coordinator = (CoordinatorKind.TRANSACTION, self._transactional_id)
        self._due.append(request)

    def again(self, request: TxnRequest) -> None:
        """It was sent, and has to be sent once more: before what was asked after it."""
        request.tries += 1
        self._due.insert(0, request)

    def first(self) -> TxnRequest | None:
        """The one that is due next; it stays. Of equals, the one that was asked first."""
        return min(self._due, key=lambda due: due.priority, default=None)

    def take(self, request: TxnRequest) -> None:
        """It is dealt with."""
        self._due.remove(request)

    def leave(self, request: TxnRequest) -> TxnRequest:
        """Send it, or if its coordinator is not known, ask for that first.

        Returns: the one to send.
        """
        if request.coordinator is not None and self.target(request) is None:
            self._due.insert(0, request)
            request = TxnRequest(
                ApiKey.FIND_COORDINATOR, Priority.FIND, request.call, find=request.coordinator
            )
        self.on_its_way = request
        return request

    def drain(self) -> list[TxnRequest]:
        """All that waits; nothing is due then."""
        due, self._due = self._due, []
        return due

    def target(self, request: TxnRequest) -> int | None:
        """The broker to be asked; None: any, or not known."""
        if request.coordinator is None:
            return None
        kind, key = request.coordinator
        found = self._coordinators.get(kind)
        return found[1] if found is not None and found[0] == key else None

    def found(self, kind: CoordinatorKind, key: str, node: int) -> None:
        """A coordinator is known."""
        self._coordinators[kind] = (key, node)

    def forget(self, request: TxnRequest) -> None:
        """Its coordinator has moved, or cannot be reached."""
        if request.coordinator is not None:
            self._coordinators.pop(request.coordinator[0], None)

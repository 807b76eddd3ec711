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
        on_its_way: the request that has been sent and not been answered; None: the next may leave.
    """

    def __init__(self, transactional_id: str) -> None:
        self.on_its_way: TxnRequest | None = None
        self._transactional_id = transactional_id
        self._due: list[TxnRequest] = []
        self._coordinators: dict[CoordinatorKind, tuple[str, int]] = {}

    def add(self, request: TxnRequest) -> None:
        """Add a request that is due. It goes to the transaction coordinator unless it names another one."""
        if request.coordinator is None and request.api is not ApiKey.FIND_COORDINATOR:
            request.coordinator = (CoordinatorKind.TRANSACTION, self._transactional_id)
        self._due.append(request)

    def again(self, request: TxnRequest) -> None:
        """Send a request once more, before those that were asked after it."""
        request.tries += 1
        self._due.insert(0, request)

    def first(self) -> TxnRequest | None:
        """Return the request that is due next; it stays. Of equals, it is the one that was asked first."""
        return min(self._due, key=lambda due: due.priority, default=None)

    def take(self, request: TxnRequest) -> None:
        """Take out a request that is dealt with."""
        self._due.remove(request)

    def leave(self, request: TxnRequest) -> TxnRequest:
        """Return the request to send: this one, or if its coordinator is not known, the question for that."""
        if request.coordinator is not None and self.target(request) is None:
            self._due.insert(0, request)
            request = TxnRequest(
                ApiKey.FIND_COORDINATOR, Priority.FIND, request.call, find=request.coordinator
            )
        self.on_its_way = request
        return request

    def drain(self) -> list[TxnRequest]:
        """Return all that waits; nothing is due then."""
        due, self._due = self._due, []
        return due

    def target(self, request: TxnRequest) -> int | None:
        """Return the broker to be asked; None: any, or not known."""
        if request.coordinator is None:
            return None
        kind, key = request.coordinator
        coordinator = self._coordinators.get(kind)
        return coordinator[1] if coordinator is not None and coordinator[0] == key else None

    def found(self, kind: CoordinatorKind, key: str, node: int) -> None:
        """Note where a coordinator is."""
        self._coordinators[kind] = (key, node)

    def forget(self, request: TxnRequest) -> None:
        """Forget a request's coordinator, which has moved, or cannot be reached."""
        if request.coordinator is not None:
            self._coordinators.pop(request.coordinator[0], None)

"""A fetch session with one broker (KIP-227): after a full request, only what changed is named.

The broker keeps the list of partitions under a session id; an epoch per request keeps both sides in step.
Whatever goes wrong, the next request is a full one, which begins a new session.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.client.core.fetch_requests import FetchAt
from odradek.client.types import TopicPartition
from odradek.errors import ErrorCode

FULL_EPOCH = 0
_LAST_EPOCH = 2**31 - 1

_SESSION_GONE = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
)


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """The contents of a request: partitions to name, partitions to forget, and (session id, epoch)."""

    named: list[FetchAt]
    forgotten: list[tuple[TopicPartition, bytes]]
    session: tuple[int, int]


class FetchSessionHandler:
    """The session with one broker."""

    def __init__(self) -> None:
        self._id = 0
        self._epoch = FULL_EPOCH
        self._known: dict[TopicPartition, tuple[FetchAt, bytes]] = {}
        self._with_ids = False

    def next_request(
        self, wanted: list[FetchAt], topic_ids: dict[str, bytes], with_ids: bool
    ) -> SessionRequest:
        """The next request.

        Args:
            wanted: every partition to be fetched.
            topic_ids: topic → id.
            with_ids: whether the request names topics by id; a session cannot change that.
        """
        if self._epoch != FULL_EPOCH and with_ids != self._with_ids:
            self.reset()
        self._with_ids = with_ids
        now = {at.tp: (at, topic_ids[at.tp.topic]) for at in wanted}
        if self._epoch == FULL_EPOCH:
            self._known = now
            return SessionRequest(wanted, [], (self._id, FULL_EPOCH))
        named = [at for at in wanted if self._known.get(at.tp) != now[at.tp]]
        forgotten = [
            (tp, old[1])
            for tp, old in self._known.items()
            if tp not in now or (with_ids and now[tp][1] != old[1])
        ]
        self._known = now
        return SessionRequest(named, forgotten, (self._id, self._epoch))

    def answered(self, error_code: int, session_id: int) -> None:
        """Take the top level of an answer."""
        if error_code:
            # A session that is not there cannot be closed; any other error leaves it, and a full request
            # with its id replaces it.
            if error_code in _SESSION_GONE:
                self._id = 0
            self._epoch = FULL_EPOCH
            return
        if session_id == 0:
            self.reset()
            return
        self._id = session_id
        self._epoch = 1 if self._epoch >= _LAST_EPOCH else self._epoch + 1

    def failed(self) -> None:
        """No answer came: the two sides may be out of step."""
        self._epoch = FULL_EPOCH

    def reset(self) -> None:
        """Begin anew, without a session."""
        self._id = 0
        self._epoch = FULL_EPOCH
        self._known = {}

# compiled: mypyc
"""A follower's side of its fetch session with a leader (KIP-227). No I/O, no clock.

    epoch 0 ──an answer with an id──► 1 ──► 2 … 2³¹-1 ──► 1
       ▲                              │
       └── an error, a broken connection, topics named in the other way

A fetch of epoch 0 is a full one: it names all partitions, and the leader gives the session an id if it has
room for it. Later ones name what has changed, and what is to be forgotten. Kafka: `FetchSessionHandler`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, final

from odradek.errors.codes import ErrorCode, error_name
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, ForgottenTopic

if TYPE_CHECKING:
    from odradek.util.topic_partition import TopicPartition
    from odradek.wire.messages.fetch import FetchResponse

logger = logging.getLogger(__name__)

_FIRST_WITH_SESSIONS: Final = 7
_MAX_EPOCH: Final = 2**31 - 1


@final
class SessionPartition:
    """A partition as the leader knows it.

    Attributes:
        topic_id: of its topic; zeros where it has none.
        asked: what was asked about it last.
    """

    __slots__ = ("asked", "topic_id")

    def __init__(self, topic_id: bytes, asked: FetchPartition) -> None:
        self.topic_id = topic_id
        self.asked = asked


@final
class FetchSessionHandler:
    """See the module's docstring.

    Attributes:
        leader_id: the broker that is fetched from.
        session_id: of the next fetch; 0 without a session.
        epoch: of the next fetch; 0 exactly when that is a full one. With a `session_id` it then has the
            leader close that session and open another (`FetchMetadata.nextCloseExistingAttemptNew`).
        uses_ids: whether the last fetch named its topics by their ids.
        partitions: what the leader knows since the last fetch, if that has reached it.
    """

    def __init__(self, leader_id: int) -> None:
        self.leader_id = leader_id
        self.session_id = 0
        self.epoch = 0
        self.uses_ids = False
        self.partitions: dict[TopicPartition, SessionPartition] = {}
        self._version = 0

    def known(self, version: int, by_id: bool) -> Mapping[TopicPartition, SessionPartition]:
        """Return what the next fetch need not name again; nothing where it is a full one.

        Args:
            version: in which it is sent.
            by_id: whether it names topics by their ids. A session does so throughout, or never.
        """
        if self.epoch > 0 and by_id != self.uses_ids:
            self.epoch = 0
        return {} if self.epoch == 0 or version < _FIRST_WITH_SESSIONS else self.partitions

    def put_into(
        self,
        message: FetchRequest,
        wanted: dict[TopicPartition, SessionPartition],
        version: int,
        by_id: bool,
    ) -> None:
        """Make a fetch part of the session.

        Args:
            message: has the partitions that are new or have changed.
            wanted: all partitions, those among them that are left out.
            version, by_id: as for `known`.
        """
        known = self.known(version, by_id)
        if version >= _FIRST_WITH_SESSIONS:
            # A topic that was made anew under its name is another one.
            gone = [
                (key, partition.topic_id)
                for key, partition in known.items()
                if key not in wanted or (by_id and wanted[key].topic_id != partition.topic_id)
            ]
            message.session_id, message.session_epoch = self.session_id, self.epoch
            message.forgotten_topics_data = _forgotten(gone, by_id)
        self.partitions, self.uses_ids, self._version = wanted, by_id, version

    def begin_anew(self) -> None:
        """Make the next fetch a full one: nobody knows what the leader has heard of the last one."""
        self.epoch = 0

    def take(self, response: FetchResponse) -> bool:
        """Take what a response says of the session; returns whether its partitions count."""
        if response.error_code:
            logger.info(
                "broker %d ends the fetch session %d: %s",
                self.leader_id,
                self.session_id,
                error_name(response.error_code),
            )
            if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                # There is none that the next fetch could close.
                self.session_id = 0
            self.epoch = 0
            return False
        if self._version < _FIRST_WITH_SESSIONS or response.session_id == 0:
            self.session_id = self.epoch = 0
        elif self.epoch == 0:
            self.session_id, self.epoch = response.session_id, 1
        elif self.epoch == _MAX_EPOCH:
            # Not 0, by which a fetch would be a full one.
            self.epoch = 1
        else:
            self.epoch += 1
        return True

    def topic_names(self) -> dict[bytes, str]:
        """The names of the session's topics by their ids."""
        return {partition.topic_id: key[0] for key, partition in self.partitions.items()}


def _forgotten(gone: Iterable[tuple[TopicPartition, bytes]], by_id: bool) -> list[ForgottenTopic]:
    topics: dict[Any, ForgottenTopic] = {}
    for (name, index), topic_id in gone:
        made = ForgottenTopic(topic_id=topic_id) if by_id else ForgottenTopic(topic=name)
        topics.setdefault(topic_id if by_id else name, made).partitions.append(index)
    return list(topics.values())

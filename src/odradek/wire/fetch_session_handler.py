# compiled: mypyc
"""The side of a fetch session that asks (KIP-227): a consumer's or a follower's, with one broker.

    epoch 0 ──an answer with an id──► 1 ──► 2 … 2³¹-1 ──► 1
       ▲                              │
       └── an error, a broken connection, topics named in the other way, an answer that does not fit

A fetch of epoch 0 is a full one: it names all partitions, and the broker gives the session an id if it has
room for it. Later ones name what has changed, and what is to be forgotten. The broker's side is
`odradek.broker.fetch.sessions`. Kafka: `FetchSessionHandler`, which its consumers and followers share, too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, final

from odradek.errors.codes import ErrorCode, error_name
from odradek.wire.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic

if TYPE_CHECKING:
    from odradek.util.topic_partition import TopicPartition
    from odradek.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData

logger = logging.getLogger(__name__)

INITIAL_EPOCH: Final = 0
"""Of a full fetch that closes the session it names, if any, and asks for another."""

FINAL_EPOCH: Final = -1
"""Of a full fetch that closes the session it names, if any, and wants none."""

SESSION_LOST: Final = frozenset({ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH})
"""The broker does not have the session, or has it at another epoch: a full fetch may follow at once."""

NAMES_UNTIL: Final = 12
"""The last version of Fetch that names topics; later ones need their ids (KIP-516)."""

_FIRST_WITH_SESSIONS: Final = 7
_MAX_EPOCH: Final = 2**31 - 1


@final
class SessionPartition:
    """A partition as the broker knows it. Kafka: `FetchRequest.PartitionData`.

    Attributes:
        topic_id: of its topic; zeros where it has none.
        fetch_partition: what was asked about it last.
    """

    __slots__ = ("fetch_partition", "topic_id")

    def __init__(self, topic_id: bytes, fetch_partition: FetchPartition) -> None:
        self.topic_id = topic_id
        self.fetch_partition = fetch_partition


@final
class FetchSessionHandler:
    """See the module's docstring.

    Attributes:
        node: the id of the broker that is fetched from.
        session_id: of the next fetch; 0 without a session.
        epoch: of the next fetch, which is a full one exactly when that is not positive. With a `session_id`
            it then has the broker close that session (`FetchMetadata.nextCloseExistingAttemptNew`).
        uses_ids: whether the last fetch named its topics by their ids.
        partitions: what the broker knows since the last fetch, if that has reached it.
    """

    def __init__(self, node: int, epoch: int = INITIAL_EPOCH) -> None:
        """
        Args:
            node: the broker's id.
            epoch: FINAL_EPOCH for a single fetch without a session.
        """
        self.node = node
        self.session_id = 0
        self.epoch = epoch
        self.uses_ids = False
        self.partitions: dict[TopicPartition, SessionPartition] = {}

    def new_builder(self, version: int) -> FetchRequestBuilder:
        """Begin the next fetch; there may be one under way at a time.

        Args:
            version: in which it is sent. From 13 on it names topics by their ids, which a session does
                throughout, or never.
        """
        by_id = version > NAMES_UNTIL
        if self.epoch > 0 and by_id != self.uses_ids:
            self.epoch = INITIAL_EPOCH
        return FetchRequestBuilder(self, version, by_id)

    def handle_error(self) -> None:
        """Make the next fetch a full one: the last has no answer, and may or may not have been heard."""
        self.epoch = INITIAL_EPOCH

    def handle_response(self, response: FetchResponse) -> dict[TopicPartition, PartitionData] | None:
        """Take what a response says of the session.

        Returns: its answers by partition; None where it does not count, as of an error, of a broker that
            throttles (KIP-219), or where it is not about what was asked for. All is fetched again then.
        """
        if response.error_code:
            logger.info(
                "broker %d ends the fetch session %d: %s",
                self.node,
                self.session_id,
                error_name(response.error_code),
            )
            if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                # There is no session that the next fetch could close. After any other error there may be, and
                # it would be kept until the broker needs its room.
                self.session_id = 0
            self.epoch = INITIAL_EPOCH
            return None
        answers, problem = self._response_data(response)
        if self.epoch <= 0:
            # In a session that began so, the partition that is missing would never be fetched again: the next
            # requests name only what changes.
            if problem is None and len(answers) < len(self.partitions):
                problem = f"only {len(answers)} of {len(self.partitions)} partitions"
            self.session_id = response.session_id if problem is None else 0
            self.epoch = INITIAL_EPOCH if self.session_id == 0 else 1
        elif problem is not None:
            self.epoch = INITIAL_EPOCH
        # The broker has closed it, to make room for others.
        elif response.session_id == 0:
            self.session_id = 0
            self.epoch = INITIAL_EPOCH
        else:
            # Not 0, by which a fetch would be a full one.
            self.epoch = 1 if self.epoch == _MAX_EPOCH else self.epoch + 1
        if problem is None:
            return answers
        # A broker that throttles answers at once, with nothing: no news (KIP-219).
        if answers or not response.throttle_time_ms:
            logger.info("broker %d answers a fetch about %s", self.node, problem)
        return None

    def _response_data(
        self, response: FetchResponse
    ) -> tuple[dict[TopicPartition, PartitionData], str | None]:
        """Return the answers by partition, and the first among them that was not asked for."""
        names: dict[bytes, str] = {}
        if self.uses_ids and response.responses:
            names = {partition.topic_id: key[0] for key, partition in self.partitions.items()}
        answers: dict[TopicPartition, PartitionData] = {}
        for topic in response.responses:
            name = names.get(topic.topic_id) if self.uses_ids else topic.topic
            if name is None:
                return answers, f"the topic {topic.topic_id.hex()}, which it was not asked for"
            for data in topic.partitions:
                key = (name, data.partition_index)
                # Records of a partition that nobody asked for have no offset that they could be held to.
                if key not in self.partitions:
                    return answers, f"{name}-{data.partition_index}, which it was not asked for"
                answers[key] = data
        return answers, None


@final
class FetchRequestBuilder:
    """The partitions of the next fetch. Kafka: `FetchSessionHandler.Builder`."""

    def __init__(self, session: FetchSessionHandler, version: int, by_id: bool) -> None:
        self._session = session
        self._version = version
        self._by_id = by_id
        # What the fetch need not name again; nothing where it is a full one.
        self._known: Mapping[TopicPartition, SessionPartition] = (
            {} if session.epoch <= 0 or version < _FIRST_WITH_SESSIONS else session.partitions
        )
        self._next: dict[TopicPartition, SessionPartition] = {}
        self._named: list[tuple[str, SessionPartition]] = []

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to fetch, and nothing to be forgotten."""
        return not self._next and not self._known

    def add(
        self,
        key: TopicPartition,
        topic_id: bytes,
        offset: int,
        *,
        leader_epoch: int,
        max_bytes: int,
        last_epoch: int = -1,
        log_start_offset: int = -1,
    ) -> None:
        """Fetch a partition, too.

        Args:
            key: its topic's name, and its number.
            topic_id: zeros where the topic has none.
            offset: from where on.
            leader_epoch: as the asking side knows it, -1 for none.
            max_bytes: of its answer.
            last_epoch: of the follower's last record (KIP-595), -1 for none.
            log_start_offset: the follower's, -1 for none.
        """
        before = self._known.get(key)
        if before is not None:
            fetch_partition = before.fetch_partition
            if (
                fetch_partition.fetch_offset == offset
                and fetch_partition.log_start_offset == log_start_offset
                and fetch_partition.current_leader_epoch == leader_epoch
                and fetch_partition.last_fetched_epoch == last_epoch
                and fetch_partition.partition_max_bytes == max_bytes
                and before.topic_id == topic_id
            ):
                self._next[key] = before
                return
        partition = SessionPartition(
            topic_id,
            FetchPartition(
                partition=key[1],
                current_leader_epoch=leader_epoch,
                fetch_offset=offset,
                last_fetched_epoch=last_epoch,
                log_start_offset=log_start_offset,
                partition_max_bytes=max_bytes,
            ),
        )
        self._next[key] = partition
        self._named.append((key[0], partition))

    def build(self, message: FetchRequest) -> None:
        """Make a request the next fetch: its topics, what is forgotten, and its place in the session."""
        session, next_partitions = self._session, self._next
        message.topics = _topics(self._named, self._by_id)
        if self._version >= _FIRST_WITH_SESSIONS:
            # A topic that was made anew under its name is another topic (KIP-516).
            gone = [
                (key, partition.topic_id)
                for key, partition in self._known.items()
                if key not in next_partitions
                or (self._by_id and next_partitions[key].topic_id != partition.topic_id)
            ]
            message.session_id, message.session_epoch = session.session_id, session.epoch
            message.forgotten_topics_data = _forgotten(gone, self._by_id)
        # Before it is known whether the broker hears it: where it does not, the next fetch is a full one.
        session.partitions, session.uses_ids = next_partitions, self._by_id


def _topics(named: Iterable[tuple[str, SessionPartition]], by_id: bool) -> list[FetchTopic]:
    topics: list[FetchTopic] = []
    for name, partition in named:
        topic_id = partition.topic_id
        last = topics[-1] if topics else None
        # Neighbours alone share an element: the order of the partitions is what is fair.
        if last is None or (last.topic_id != topic_id if by_id else last.topic != name):
            last = FetchTopic(topic_id=topic_id) if by_id else FetchTopic(topic=name)
            topics.append(last)
        last.partitions.append(partition.fetch_partition)
    return topics


def _forgotten(gone: Iterable[tuple[TopicPartition, bytes]], by_id: bool) -> list[ForgottenTopic]:
    topics: dict[Any, ForgottenTopic] = {}
    for (name, index), topic_id in gone:
        topic = ForgottenTopic(topic_id=topic_id) if by_id else ForgottenTopic(topic=name)
        topics.setdefault(topic_id if by_id else name, topic).partitions.append(index)
    return list(topics.values())

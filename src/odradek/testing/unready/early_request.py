"""A request that comes to a broker which is not ready, and what is told of the cluster in its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from odradek.testing.faults.asked import names_in_session
from odradek.testing.faults.names import Names, parts
from odradek.testing.unready.lagging_metadata import TOPIC_OF
from odradek.wire.api import ApiKey

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.services import BrokerServices
    from odradek.testing.unready.ended_transactions import EndedTransactions
    from odradek.testing.unready.lagging_metadata import LaggingMetadata
    from odradek.testing.unready.unreadiness import Subject, Unreadiness

_FETCH, _METADATA, _FIND_COORDINATOR = int(ApiKey.FETCH), int(ApiKey.METADATA), int(ApiKey.FIND_COORDINATOR)
_DESCRIBE_CONFIGS = int(ApiKey.DESCRIBE_CONFIGS)
_DESCRIBE_TOPIC_PARTITIONS = int(ApiKey.DESCRIBE_TOPIC_PARTITIONS)


class State(NamedTuple):
    """The unreadiness of one broker.

    Attributes:
        broker: it.
        unreadiness: counts the answers of this broker.
        metadata: what it tells of the cluster.
        transactions: those that have ended, at all brokers of the cluster.
    """

    broker: BrokerServices
    unreadiness: Unreadiness
    metadata: LaggingMetadata
    transactions: EndedTransactions


class EarlyRequest:
    """One request.

    Attributes:
        state: what is not ready.
        request, version: the request.
        names: those of each of its parts.
        image: the cluster as it is.
        told: the cluster as the answer tells it.
    """

    def __init__(self, state: State, context: RequestContext, request: Any) -> None:
        """
        Args:
            state: see the attributes.
            context, request: what the handler is called with.
        """
        self.state = state
        self.request = request
        self.version = context.api_version
        self._release = state.broker.handlers.release
        self.image = image = state.broker.image
        metadata = state.metadata
        self.names: tuple[Names, ...] = tuple(
            parts(request, lambda topic_id: metadata.topic_name(image, topic_id))
        )
        if context.api_key == _FETCH:
            self.names += names_in_session(state.broker, request)
        self.told = metadata.answer(image, self._topics(context.api_key))
        if context.api_key == _DESCRIBE_CONFIGS and self.with_kraft:
            self.told = metadata.answer_configs(self.told, self._named("topic"))
        self._counted: dict[Subject, int] = {}

    def _topics(self, key: int) -> list[str] | None:
        """Return of which topics the answer tells whether they are there; None for all."""
        if key == _FIND_COORDINATOR:
            return [topic for kind, topic in TOPIC_OF.items() if self._named(kind)]
        if key in (_METADATA, _DESCRIBE_TOPIC_PARTITIONS) and not self.request.topics:
            is_of_all = self.request.topics is None or self.version == 0
            return None if is_of_all else []
        return self._named("topic")

    def _named(self, kind: str) -> list[Any]:
        return [names[kind] for names in self.names if names.get(kind) is not None]

    def topic_name(self, name: str, topic_id: bytes) -> str | None:
        """Return a topic's name, given as some versions have it or by its id; None for a topic unknown."""
        return name or self.state.metadata.topic_name(self.image, topic_id)

    # ------------------------------------------------------------------ the release

    @property
    def with_kraft(self) -> bool:
        """Return whether the broker passes for one with KRaft, as one does that is no release."""
        return not self.state.broker.handlers.with_zookeeper

    def is_from(self, name: str) -> bool:
        """Return whether the broker passes for a release, or for a later one."""
        return self._release is None or self._release.at_least(name)

    # ------------------------------------------------------------------ subjects

    def left(self, subject: Subject) -> int:
        """Count this answer about a subject, once; see `Unreadiness.answered`."""
        if subject not in self._counted:
            self._counted[subject] = self.state.unreadiness.answered(subject)
        return self._counted[subject]

    def is_ending(self, transactional_id: str) -> bool:
        """Count this answer about the end of a transaction, once; see `EndedTransactions.is_ending`."""
        subject = ("transaction", transactional_id)
        if subject not in self._counted:
            self._counted[subject] = self.state.transactions.is_ending(transactional_id)
        return bool(self._counted[subject])


def fetch_offsets(early: EarlyRequest, session_id: int) -> dict[tuple[str | None, int], int]:
    """Return where a fetch begins in each partition.

    Args:
        early: the fetch.
        session_id: of its answer.
    """
    offsets = {
        (early.topic_name(topic.topic, topic.topic_id), partition.partition): partition.fetch_offset
        for topic in early.request.topics
        for partition in topic.partitions
    }
    session = early.state.broker.fetch_sessions.find(session_id)
    for fetched in () if session is None else session.partitions.values():
        partition = fetched.fetch_partition
        offsets.setdefault((fetched.topic, partition.partition), partition.fetch_offset)
    return offsets

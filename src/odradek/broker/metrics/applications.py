# compiled: mypyc
"""Applications: who produces and consumes what, as far as it passes one broker.

Kafka knows clients, no producers or consumers. An application here is all connections with the same client
id, software (KIP-511), principal and address. Requests pay for a few additions: names, rates and sums are
made when somebody looks.

Everything is bounded, as clients choose their ids: beyond `MOST_APPLICATIONS` those that have been gone for
longest are forgotten, and what comes when all are connected counts for `Applications.others`. So it is with
topics (`MOST_TOPICS`, and `MOST_TOPICS_IN_ALL`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

MOST_APPLICATIONS = 1000
MOST_TOPICS = 1000
"""Topics that one application reads or writes."""
MOST_TOPICS_IN_ALL = 20_000
"""The same, of all applications together."""
MOST_GROUPS = 100
"""Consumer groups of one application, and topics of each of these."""
MOST_ERRORS = 100
"""Pairs of request and error of one application."""
LONGEST_NAME = 256
"""Of client ids and the like; the rest is cut off."""
MOST_POSITIONS = 1000
"""Partitions of one connection whose records are counted."""
_RECORDS_A_BYTE = 8
"""More cannot be packed into one: a longer way is a jump."""

SLOT_MS = 30_000
WINDOW_MS = 2 * SLOT_MS
"""Rates are over the last `SLOT_MS` to `WINDOW_MS`, in ms."""


class TopicUse:
    """The records that an application writes to one topic, or reads from it.

    Attributes:
        records, size: since the application came; bytes as they are on the wire, and in the log.
        last_ms: when the last of these came, wall clock.
    """

    __slots__ = (
        "_before_ms",
        "_before_records",
        "_before_size",
        "_slot_ms",
        "_slot_records",
        "_slot_size",
        "last_ms",
        "records",
        "size",
    )

    def __init__(self, now_ms: int) -> None:
        self.records = 0
        self.size = 0
        self.last_ms = now_ms
        self._slot_ms = now_ms
        self._slot_records = 0
        self._slot_size = 0
        self._before_ms = now_ms
        self._before_records = 0
        self._before_size = 0

    def count(self, records: int, size: int, now_ms: int) -> None:
        """Count some records."""
        if now_ms - self._slot_ms >= SLOT_MS:
            self._begin_slot(now_ms)
        self.records += records
        self.size += size
        self.last_ms = now_ms

    def _begin_slot(self, now_ms: int) -> None:
        if now_ms - self._slot_ms >= WINDOW_MS:
            # Nothing has come in the slot before this one.
            self._slot_ms, self._slot_records, self._slot_size = now_ms, self.records, self.size
        self._before_ms = self._slot_ms
        self._before_records = self._slot_records
        self._before_size = self._slot_size
        self._slot_ms, self._slot_records, self._slot_size = now_ms, self.records, self.size

    def rates(self, now_ms: int) -> tuple[float, float]:
        """Return records and bytes a second, over the last half to full minute; 0 when none came in it."""
        if now_ms - self.last_ms >= WINDOW_MS:
            return 0.0, 0.0
        # What has just begun is not taken for a flood: a second is the least.
        elapsed_s = max(now_ms - self._before_ms, 1000) / 1000
        return (self.records - self._before_records) / elapsed_s, (self.size - self._before_size) / elapsed_s


class Positions:
    """The positions from which one connection has read, by topic and partition.

    Nobody counts the records of what is sent, which may go from the disk to the socket. So their number is
    taken from how far the next fetch has come; a jump, to the end or back, is none.
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[tuple[str, int], tuple[int, int]] = {}

    def read_at(self, key: tuple[str, int], offset: int, size: int) -> int:
        """Note what is read now.

        Args:
            key: topic and partition.
            offset: from which on.
            size: how many bytes.

        Returns:
            How many records were read the time before, which is known by now.
        """
        before = self._last.get(key)
        if before is None and len(self._last) >= MOST_POSITIONS:
            return 0
        self._last[key] = (offset, size)
        if before is None:
            return 0
        advanced = offset - before[0]
        return advanced if 0 < advanced <= _RECORDS_A_BYTE * before[1] else 0


class ApplicationIdentity:
    """The identity of an application: equal for all of its connections.

    Attributes:
        client_id: empty where a client gives none.
        software_name, software_version: empty for clients that do not say (before KIP-511).
        principal: in Kafka's form `User:name`.
        host: the address, without the port.
        is_broker: whether it calls itself another broker of a cluster.
    """

    __slots__ = ("client_id", "host", "is_broker", "key", "principal", "software_name", "software_version")

    def __init__(
        self,
        client_id: str,
        software: tuple[str, str],
        principal: str,
        host: str,
        *,
        is_broker: bool = False,
    ) -> None:
        self.client_id = client_id[:LONGEST_NAME]
        self.software_name = software[0][:LONGEST_NAME]
        self.software_version = software[1][:LONGEST_NAME]
        self.principal = principal[:LONGEST_NAME]
        self.host = host
        self.is_broker = is_broker
        self.key: Hashable = (
            self.client_id,
            self.software_name,
            self.software_version,
            self.principal,
            self.host,
        )


class Application:
    """One application, with all that is counted of it.

    Attributes:
        identity: who it is.
        connections: those that are open.
        requests: how many it has sent.
        first_ms, last_ms: when its first and its last request came, wall clock.
        produced, consumed: by topic.
        other_produced, other_consumed: topics beyond the bounds, together; None where there are none.
        groups: the consumer groups that it joins or commits for, with the topics that it has committed.
        errors: how often it was told an error, by the numbers of API and error.
    """

    __slots__ = (
        "_table",
        "connections",
        "consumed",
        "errors",
        "first_ms",
        "groups",
        "identity",
        "last_ms",
        "other_consumed",
        "other_produced",
        "produced",
        "requests",
    )

    def __init__(self, identity: ApplicationIdentity, table: Applications, now_ms: int) -> None:
        self.identity = identity
        self.connections = 0
        self.requests = 0
        self.first_ms = self.last_ms = now_ms
        self.produced: dict[str, TopicUse] = {}
        self.consumed: dict[str, TopicUse] = {}
        self.other_produced: TopicUse | None = None
        self.other_consumed: TopicUse | None = None
        self.groups: dict[str, set[str]] = {}
        self.errors: dict[tuple[int, int], int] = {}
        self._table = table

    def disconnect(self) -> None:
        """A connection has ended, or is another application's from now on."""
        self._table.disconnected(self)

    def count_produced(self, topic: str, records: int, size: int, now_ms: int) -> None:
        """Count records that were appended to a topic."""
        use = self.produced.get(topic)
        if use is None:
            use = self._new_produced(topic, now_ms)
        use.count(records, size, now_ms)

    def count_consumed(self, topic: str, records: int, size: int, now_ms: int) -> None:
        """Count records of a topic that are sent."""
        use = self.consumed.get(topic)
        if use is None:
            use = self._new_consumed(topic, now_ms)
        use.count(records, size, now_ms)

    def count_error(self, api_key: int, code: int, times: int) -> None:
        """Count an error that it was told."""
        key = (api_key, code)
        before = self.errors.get(key)
        if before is not None:
            self.errors[key] = before + times
        elif len(self.errors) < MOST_ERRORS:
            self.errors[key] = times

    def note_group(self, group: str) -> set[str] | None:
        """Note that it is in a consumer group.

        Returns:
            The topics of the group that are known; None for one group too many.
        """
        group = group[:LONGEST_NAME]
        topics = self.groups.get(group)
        if topics is None and len(self.groups) < MOST_GROUPS:
            topics = self.groups[group] = set()
        return topics

    def note_commit(self, group: str, topics: list[str]) -> None:
        """Note the topics of which it has committed offsets for a group."""
        known = self.note_group(group)
        if known is not None and len(known) < MOST_GROUPS:
            known.update(topics[:MOST_GROUPS])

    @property
    def topics(self) -> int:
        """The number of topics that are counted of it by name, written and read ones apart."""
        return len(self.produced) + len(self.consumed)

    def _new_produced(self, topic: str, now_ms: int) -> TopicUse:
        if self._table.takes_topic(self):
            use = self.produced[topic] = TopicUse(now_ms)
            return use
        other = self.other_produced
        if other is None:
            other = self.other_produced = TopicUse(now_ms)
        return other

    def _new_consumed(self, topic: str, now_ms: int) -> TopicUse:
        if self._table.takes_topic(self):
            use = self.consumed[topic] = TopicUse(now_ms)
            return use
        other = self.other_consumed
        if other is None:
            other = self.other_consumed = TopicUse(now_ms)
        return other


class Applications:
    """The applications of a broker.

    Attributes:
        others: what was not counted by name, because there were too many that are connected.
        forgotten: how many were dropped, which had gone, to make room for others.
    """

    def __init__(self) -> None:
        self.others = Application(ApplicationIdentity("", ("", ""), "", ""), self, 0)
        self.forgotten = 0
        self._by_key: dict[Hashable, Application] = {}
        # Those without a connection, the longest gone first.
        self._gone: dict[Hashable, Application] = {}
        self._topics = 0

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Application]:
        return iter(list(self._by_key.values()))

    def connect(self, identity: ApplicationIdentity, now_ms: int) -> Application:
        """Return the application of a connection, which counts for it until its `disconnect`."""
        application = self._by_key.get(identity.key)
        if application is None:
            application = self._new(identity, now_ms)
        elif application.connections == 0:
            del self._gone[identity.key]
        application.connections += 1
        return application

    def disconnected(self, application: Application) -> None:
        """See `Application.disconnect`."""
        application.connections -= 1
        if application.connections == 0 and application is not self.others:
            self._gone[application.identity.key] = application

    def connections_by_software(self) -> dict[tuple[str, str], int]:
        """Return how many connections there are, by name and version of their clients' software."""
        counts: dict[tuple[str, str], int] = {}
        for application in [*self, self.others]:
            identity = application.identity
            key = (identity.software_name or "unknown", identity.software_version or "unknown")
            if application.connections:
                counts[key] = counts.get(key, 0) + application.connections
        return counts

    def takes_topic(self, application: Application) -> bool:
        """Return whether there is room for one more topic, which is counted then."""
        if (
            self._topics >= MOST_TOPICS_IN_ALL
            or application.topics >= MOST_TOPICS
            or application is self.others
        ):
            return False
        self._topics += 1
        return True

    def _new(self, identity: ApplicationIdentity, now_ms: int) -> Application:
        if len(self._by_key) >= MOST_APPLICATIONS:
            if not self._gone:
                if self.others.requests == 0:
                    self.others.first_ms = now_ms
                return self.others
            oldest = next(iter(self._gone))
            self._topics -= self._gone.pop(oldest).topics
            del self._by_key[oldest]
            self.forgotten += 1
        application = self._by_key[identity.key] = Application(identity, self, now_ms)
        return application

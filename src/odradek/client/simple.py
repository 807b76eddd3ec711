"""The low-level way of Kafka 0.8: one broker, one partition, everything by hand.

`SimpleConsumer` asks one broker, as Kafka's class of that name did: who leads a partition, which offset was
the last before a time, which records begin at an offset, what a group has committed. `find_leader`,
`find_new_leader` and `read_partition` are what every program around it needed: leader lookup over seed
brokers, the new leader after a death, and the loop that fetches, skips and resets. It is for tools, for
learning, and for brokers on which consumer groups do not exist; applications take `Consumer`.

It is blocking, without threads, one object for one thread, and works with Kafka from 0.8.2 on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, Unpack

from odradek.client.arguments import epoch_ms, offsets_of, partitions_of
from odradek.client.blocking import BlockingConnection
from odradek.client.config import ConsumerConfig, build, parse_servers
from odradek.client.core.chunk import records_of
from odradek.client.core.fetch_requests import (
    EARLIEST,
    LATEST,
    FetchAt,
    fetch_request,
    list_offsets_request,
    offset_in,
)
from odradek.client.core.fetched import batch_too_large, end_of_fetched
from odradek.client.core.group_offsets import (
    commit_request,
    committed_in,
    not_committed,
    offset_fetch_request,
)
from odradek.client.core.handshake import known_brokers
from odradek.client.core.metadata import CREATION_FROM, metadata_topics
from odradek.client.core.outages import Outages
from odradek.client.core.ownership import Ownership, one_at_a_time
from odradek.client.errors import IllegalStateError, UnsupportedByBrokerError, left_out
from odradek.client.types import ByPartition, ConsumerRecord, Node, TopicPartition
from odradek.errors import ErrorCode, KafkaError, NetworkError, error_for
from odradek.errors.codes import to_code
from odradek.records.batch import check_crc
from odradek.records.message_sets.message_batches import iter_fetched
from odradek.wire.api import ApiKey
from odradek.wire.fetch_session_handler import FINAL_EPOCH, NAMES_UNTIL, FetchSessionHandler
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.metadata import MetadataRequest

if TYPE_CHECKING:
    from odradek.client.config_dicts import ReadConfigs

    class SimpleConfigs(ReadConfigs, total=False):
        """The configs of a `SimpleConsumer`."""

        client_id: str

    class FindConfigs(SimpleConfigs, total=False):
        """The arguments of `find_leader`."""

        timeout_ms: int


__all__ = [
    "EARLIEST",
    "LATEST",
    "Fetched",
    "Leadership",
    "SimpleConsumer",
    "find_leader",
    "find_new_leader",
    "read_partition",
]


Seeds: TypeAlias = str | Iterable[str | tuple[str, int] | Node]
"""Brokers to ask: 'host:port[,host:port…]', or a list of such or of nodes."""


class Fetched(NamedTuple):
    """The result of one fetch.

    `records` begin at the offset asked for; `skipped` counts older records before it in the same compressed
    set; `next_offset` is where to fetch on, `high_watermark` the end of what may be read.
    """

    records: list[ConsumerRecord]
    next_offset: int
    high_watermark: int
    skipped: int


class Leadership(NamedTuple):
    """The brokers that serve a partition.

    `leader` is None while there is none; `replicas` are those with an address.
    """

    leader: Node | None
    replicas: tuple[Node, ...]


class SimpleConsumer:
    """Questions to one broker.

    Args:
        host, port: the broker's; for `fetch` and `offsets_before` it must be the partition's leader.
        timeout_ms: how long connecting and each answer may take.
        client_id: as brokers log it.
        configs: further consumer configs by Kafka's names: `check_crcs`, `receive_buffer_bytes` … .

    It connects with the first question, and again after a failure.

    Raises:
        ConnectionFailedError: by every method, when the broker is gone or too slow.
        KafkaError: by every method; of the code that the broker answers with.
    """

    def __init__(
        self,
        host: str,
        port: int = 9092,
        *,
        timeout_ms: int = 30_000,
        client_id: str = "odradek-simple",
        **configs: Unpack[ReadConfigs],
    ) -> None:
        self.host = host
        self.port = port
        self._config = build(
            ConsumerConfig,
            {
                "bootstrap_servers": [(host, port)],
                "request_timeout_ms": timeout_ms,
                "socket_connection_setup_timeout_ms": timeout_ms,
                "client_id": client_id,
                **configs,
            },
        )
        self._known = known_brokers(self._config)
        self._outages = Outages(client_id)
        # None, or closed, until the next question.
        self._connection: BlockingConnection | None = None
        self._ownership = Ownership("this SimpleConsumer")
        # Where the connection is usable: a fork shares its socket, and would take the other's answers.
        self._process = os.getpid()

    def _check_usable(self) -> None:
        if self._process != os.getpid():
            if self._connection is not None:
                raise IllegalStateError(
                    f"the SimpleConsumer is that of process {self._process}, of which this one is a fork: "
                    "its connection is that one's. Make one after the fork"
                )
            self._process = os.getpid()

    def _ask(self, message: Any, version: int) -> Any:
        connection = self._connected()
        try:
            connection.send(message, version)
            return connection.receive()[1]
        except NetworkError:
            # The broker that comes back may be of another release.
            self._known.lost(connection.address)
            self.close()
            raise

    def _connected(self) -> BlockingConnection:
        if self._connection is None or self._connection.closed:
            self._connection = BlockingConnection.open(
                self.host, self.port, self._config, self._known, outages=self._outages
            )
        return self._connection

    # Who serves what

    @one_at_a_time
    def leaders(self, topic: str) -> dict[int, Leadership]:
        """Return leader and replicas of each partition of a topic, as far as this broker knows.

        The broker need not serve the topic itself.

        Raises:
            UnknownTopicOrPartitionError: it knows no such topic.
        """
        version = self._connected().pick(ApiKey.METADATA)
        request = MetadataRequest(
            topics=metadata_topics([topic], version, False), allow_auto_topic_creation=version < CREATION_FROM
        )
        answer = self._ask(request, version)
        nodes = {b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in answer.brokers}
        leaders: dict[int, Leadership] = {}
        for state in answer.topics:
            # An old broker was asked for all topics, as it would create a topic that is asked for by name.
            if state.name != topic:
                continue
            if state.error_code:
                code = to_code(state.error_code)
                raise error_for(code, f"topic {topic!r}: {code.message}")
            for p in state.partitions:
                replicas = tuple(nodes[n] for n in p.replica_nodes if n in nodes)
                leaders[p.partition_index] = Leadership(nodes.get(p.leader_id), replicas)
        if not leaders:
            raise error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic!r}")
        return leaders

    @one_at_a_time
    def find_coordinator(self, group: str) -> Node:
        """Return the broker that keeps a group's offsets.

        Raises:
            CoordinatorNotAvailableError: there is none.
        """
        # From version 4 on a request names several keys (KIP-699).
        version = self._connected().pick(ApiKey.FIND_COORDINATOR, at_most=3)
        answer = self._ask(FindCoordinatorRequest(key=group), version)
        if answer.error_code:
            raise error_for(answer.error_code, answer.error_message)
        return Node(answer.node_id, answer.host, answer.port)

    # Offsets

    @one_at_a_time
    def offsets_before(
        self, topic: str, partition: int, time_ms: int | datetime = LATEST, max_offsets: int = 1
    ) -> list[int]:
        """Return offsets at which a program can begin to read, newest first, none written after a time.

        They are the first offsets of the log's segments last written to before `time_ms`, and the end of the
        log for LATEST: how exact they are depends on the size of segments. EARLIEST gives the log's start.

        Args:
            topic, partition: name the log.
            time_ms: epoch milliseconds, a datetime (without a time zone: local), LATEST or EARLIEST.
            max_offsets: how many at most.

        Raises:
            UnsupportedByBrokerError: by brokers since 4.0, which tell the ends of the log only, and one
                offset in an answer.
        """
        return self._offsets_before(topic, partition, epoch_ms(time_ms, "time_ms"), max_offsets)

    def _offsets_before(self, topic: str, partition: int, time_ms: int, max_offsets: int = 1) -> list[int]:
        tp = TopicPartition(topic, partition)
        request = list_offsets_request({tp: time_ms}, 0)
        connection = self._connected()
        # Version 0 alone gives offsets of segments; Kafka 4.0 has dropped it (KIP-896).
        low = connection.state.versions.ranges.get(ApiKey.LIST_OFFSETS, (0, 0))[0]  # type: ignore[union-attr]
        version = 0
        if low:
            if time_ms >= 0 or max_offsets != 1:
                raise UnsupportedByBrokerError(
                    f"ListOffsets: offsets before a time are asked for with version 0, the broker offers "
                    f"{low} and later; Consumer.offsets_for_times finds the first offset at or after a time"
                )
            version = connection.pick(ApiKey.LIST_OFFSETS)
        request.topics[0].partitions[0].max_num_offsets = max_offsets
        answer = self._ask(request, version)
        answers = {TopicPartition(t.name, p.partition_index): p for t in answer.topics for p in t.partitions}
        for problem in left_out([tp], answers).values():
            raise problem
        data = answers[tp]
        if data.error_code:
            code = to_code(data.error_code)
            raise error_for(code, f"{tp}: {code.message}")
        return list(data.old_style_offsets) if version == 0 else [offset_in(data)]

    @one_at_a_time
    def last_offset(self, topic: str, partition: int, time_ms: int | datetime = LATEST) -> int:
        """Return the first of `offsets_before`; the log's start where no segment is as old as that.

        Args:
            topic, partition: name the log.
            time_ms: epoch milliseconds, a datetime (without a time zone: local), LATEST or EARLIEST.
        """
        offsets = self._offsets_before(topic, partition, epoch_ms(time_ms, "time_ms"))
        return offsets[0] if offsets else self._offsets_before(topic, partition, EARLIEST)[0]

    @one_at_a_time
    def commit_offsets(self, group: str, offsets: ByPartition[int], *, in_zookeeper: bool = False) -> None:
        """Keep offsets for a group that has no members; ask its coordinator.

        Args:
            group: its id.
            offsets: (topic, number) → the next offset to read.
            in_zookeeper: keep them where Kafka 0.8 did (any broker will do then), not in the topic.
        """
        to_commit = offsets_of(offsets)
        version = self._offsets_version(ApiKey.OFFSET_COMMIT, in_zookeeper)
        answer = self._ask(commit_request(group, to_commit), version)
        for tp, code in not_committed(answer, to_commit):
            raise error_for(code, f"{tp}: {code.message}")

    @one_at_a_time
    def fetch_offsets(
        self, group: str, partitions: Iterable[tuple[str, int]], *, in_zookeeper: bool = False
    ) -> dict[TopicPartition, int]:
        """Return the committed offsets of partitions that have any; arguments as `commit_offsets`."""
        tps = partitions_of(partitions)
        version = self._offsets_version(ApiKey.OFFSET_FETCH, in_zookeeper)
        answer = self._ask(offset_fetch_request(group, tps, version, False), version)
        return {tp: entry.offset for tp, entry in committed_in(answer, version, tps).items()}

    def _offsets_version(self, key: ApiKey, in_zookeeper: bool) -> int:
        connection = self._connected()
        if not in_zookeeper:
            return connection.pick(key)
        versions = connection.state.versions
        assert versions is not None
        # Of both APIs version 0 is for ZooKeeper, later versions for the topic.
        if versions.ranges.get(key, (1, 1))[0] > 0:
            raise UnsupportedByBrokerError(
                f"{key.api_name}: the broker keeps no offsets in ZooKeeper, which version 0 is for"
            )
        return 0

    # Records

    @one_at_a_time
    def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        max_bytes: int = 100_000,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
    ) -> Fetched:
        """Return the records at an offset, about `max_bytes` at most; none if none come within `max_wait_ms`.

        A broker gives out compressed sets whole, so older records may come with those asked for: they are
        skipped, and counted.

        Args:
            topic, partition, offset: where to begin.
            max_bytes: of the answer.
            max_wait_ms: how long the broker may wait for `min_bytes`, milliseconds.
            min_bytes: how much is worth an answer at once.

        Raises:
            OffsetOutOfRangeError: the log has no such offset.
            NotLeaderOrFollowerError: another broker leads.
            RecordTooLargeError: a record is larger than `max_bytes`; by brokers before 0.10.1.
        """
        tp = TopicPartition(topic, partition)
        # No session: each question stands alone (KIP-227). By name, as nobody knows the topic's id here.
        session = FetchSessionHandler(-1, FINAL_EPOCH)
        version = self._connected().pick(ApiKey.FETCH, at_most=NAMES_UNTIL)
        request = fetch_request(
            session,
            version,
            [FetchAt(tp, offset, -1, max_bytes)],
            {},
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation=0,
        )
        response = self._ask(request, version)
        answers = session.handle_response(response)
        if answers is None:  # without an error, the broker throttles
            raise error_for(response.error_code or ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        data = answers[tp]
        if data.error_code:
            code = to_code(data.error_code)
            raise error_for(code, f"{tp}, offset {offset}: {code.message}")
        return self._opened(tp, data, offset)

    def _opened(self, tp: TopicPartition, data: Any, offset: int) -> Fetched:
        records: list[ConsumerRecord] = []
        if data.records is None or not len(data.records):
            return Fetched(records, offset, data.high_watermark, 0)
        next_offset = end_of_fetched(data.records, offset)
        # Records, but not one whole batch: since KIP-74 brokers send the first batch in full.
        if next_offset == offset:
            raise batch_too_large(tp, offset)
        skipped = 0
        for header, batch, kind in iter_fetched(data.records, check_crcs=self._config.check_crcs):
            # Markers of transactions, and batches that compaction has emptied, have nothing for a program.
            if header.is_control or not header.record_count:
                continue
            if self._config.check_crcs:
                check_crc(header, batch)
            if header.next_offset <= offset:
                skipped += header.record_count
                continue
            part = records_of(header, batch, kind, tp.topic, tp.partition, offset)
            skipped += header.record_count - len(part)
            records += part
        return Fetched(records, next_offset, data.high_watermark, skipped)

    def close(self) -> None:
        """Close the connection; the next question opens another. May be called from anywhere: a question
        under way fails with `ConnectionFailedError`.
        """
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def __enter__(self) -> SimpleConsumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def find_leader(
    seeds: Seeds,
    topic: str,
    partition: int,
    *,
    timeout_ms: int = 10_000,
    **configs: Unpack[SimpleConfigs],
) -> Leadership:
    """Ask the seed brokers in turn who leads a partition; the first that knows the partition counts.

    Args:
        seeds: 'host:port[,host:port…]', or a list of such or of nodes.

    Raises:
        UnknownTopicOrPartitionError: they know no such partition.
        KafkaError: the last seed's error, if none of them can say.
    """
    tp = TopicPartition(topic, partition)
    problem: KafkaError = error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no seed broker knows {tp}")
    for host, port in _addresses(seeds):
        try:
            with SimpleConsumer(host, port, timeout_ms=timeout_ms, **configs) as consumer:
                leaders = consumer.leaders(topic)
        except KafkaError as error:
            problem = error
            continue
        # Else a later seed may know more: brokers learn of new partitions one after the other.
        if partition in leaders:
            return leaders[partition]
    raise problem


def find_new_leader(
    old: Node,
    replicas: Iterable[Node],
    topic: str,
    partition: int,
    *,
    tries: int = 3,
    wait_ms: int = 1_000,
    sleep: Callable[[float], None] = time.sleep,
    **configs: Unpack[FindConfigs],
) -> Leadership:
    """Ask the replicas who leads now, after the leader's death.

    An answer that still names the old leader is believed from the second try on: at first the cluster may not
    have noticed, later the broker is well again.

    Raises:
        LeaderNotAvailableError: no leader was named in `tries` tries, `wait_ms` apart.
    """
    seeds = list(replicas)
    problem: KafkaError | None = None
    for turn in range(tries):
        if turn:
            sleep(wait_ms / 1000)
        try:
            leadership = find_leader(seeds, topic, partition, **configs)
        except KafkaError as error:
            problem = error
            continue
        if leadership.leader is not None and (turn or leadership.leader.id != old.id):
            return leadership
    raise error_for(
        ErrorCode.LEADER_NOT_AVAILABLE,
        f"{topic}-{partition}: no leader after that of {old}{f' ({problem})' if problem else ''}",
    )


def read_partition(
    seeds: Seeds,
    topic: str,
    partition: int,
    *,
    start: int = EARLIEST,
    until: int | None = None,
    reset: int = LATEST,
    max_errors: int = 5,
    max_bytes: int = 100_000,
    sleep: Callable[[float], None] = time.sleep,
    **configs: Unpack[FindConfigs],
) -> Iterator[ConsumerRecord]:
    """Yield the records of one partition, in order: the loop that programs wrote around `SimpleConsumer`.

    It finds the leader, asks it for the offset to begin at, and fetches on and on. An offset out of range is
    replaced by that of `reset`; after a failure the replicas are asked for the new leader.

    Args:
        seeds: as for `find_leader`.
        start: an offset, EARLIEST or LATEST.
        until: end before this offset; None: go on for ever.
        reset: LATEST or EARLIEST.
        max_errors: how many failures in a row are borne; the next is raised.
        max_bytes: of one fetch.
        configs: as for `SimpleConsumer`.
    """
    leader = _LeaderConsumer(seeds, topic, partition, sleep, configs)
    errors = 0
    offset = start
    try:
        while until is None or offset < until:
            try:
                consumer = leader.consumer()
                # EARLIEST and LATEST are negative, as in ListOffsets.
                if offset < 0:
                    offset = consumer.last_offset(topic, partition, offset)
                    continue
                fetched = consumer.fetch(topic, partition, offset, max_bytes=max_bytes)
            except KafkaError as problem:
                errors += 1
                if errors > max_errors or not (problem.retriable or problem.code in _LOOK_AGAIN):
                    raise
                if problem.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    offset = reset
                else:
                    leader.look_again()
                continue
            errors = 0
            for record in fetched.records:
                if until is not None and record.offset >= until:
                    return
                yield record
            # Not behind the last record: batches that are skipped have none.
            offset = fetched.next_offset
    finally:
        leader.close()


class _LeaderConsumer:
    """A consumer of a partition's leader, which is looked for anew after a failure. See `read_partition`."""

    def __init__(
        self,
        seeds: Seeds,
        topic: str,
        partition: int,
        sleep: Callable[[float], None],
        configs: FindConfigs,
    ) -> None:
        self._seeds = seeds
        self._topic = topic
        self._partition = partition
        self._sleep = sleep
        self._configs = configs
        self._where = find_leader(seeds, topic, partition, **configs)
        self._consumer: SimpleConsumer | None = None

    def consumer(self) -> SimpleConsumer:
        """Return the consumer, made when it is first asked for.

        Raises:
            KafkaError: nobody leads.
        """
        leader = self._where.leader
        if leader is None:
            raise error_for(ErrorCode.LEADER_NOT_AVAILABLE, f"{self._topic}-{self._partition} has no leader")
        if self._consumer is None:
            self._consumer = SimpleConsumer(leader.host, leader.port, **self._configs)
        return self._consumer

    def look_again(self) -> None:
        """Ask the replicas who leads now.

        Raises:
            KafkaError: as `find_new_leader`.
        """
        self.close()
        old = self._where.leader or Node(-1, "nobody", 0)
        replicas = self._where.replicas or _nodes(self._seeds)
        self._where = find_new_leader(
            old, replicas, self._topic, self._partition, sleep=self._sleep, **self._configs
        )

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


_LOOK_AGAIN = frozenset({ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""Errors after which `read_partition` goes on, beside those that may be retried."""


def _addresses(seeds: Seeds) -> list[tuple[str, int]]:
    if isinstance(seeds, str):
        return list(parse_servers(seeds))
    nodes = [(seed.host, seed.port) if isinstance(seed, Node) else seed for seed in seeds]
    return list(parse_servers(nodes))


def _nodes(seeds: Seeds) -> list[Node]:
    return [Node(-1, host, port) for host, port in _addresses(seeds)]

# compiled: mypyc
"""The reading of one Fetch request: partition by partition, within its bounds, into answers."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from odradek.broker.conversion.fetch import ToConvert, cut_off, is_as_old, magic_for
from odradek.broker.fetch.response import error_answer
from odradek.broker.fetch.sessions import Answers, FetchedPartition
from odradek.broker.requests.authorization import CLUSTER, Operation
from odradek.errors import (
    KafkaError,
    TopicAuthorizationError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    UnsupportedCompressionTypeError,
    UnsupportedVersionError,
)
from odradek.errors.codes import ErrorCode
from odradek.replication.reading import (
    Isolation,
    note_follower,
    read_partition,
    readable_end,
    reader_of,
    visible_end,
)
from odradek.util.repeats import Repeats
from odradek.wire.epochs import NO_EPOCH
from odradek.wire.messages.fetch import PartitionData
from odradek.wire.primitives import ZERO_UUID

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.replication.partition import Partition
    from odradek.replication.replication_quota import ReplicationQuota
    from odradek.wire.messages.fetch import FetchRequest

logger = logging.getLogger(__name__)
repeats = Repeats(logger)

RANGE_FROM_BYTES = 256 * 1024
"""From how many bytes of a partition on the kernel sends them. Measured: below, reading them into memory that
is there already and writing them costs less than waiting for the socket to take each piece of a file."""

_ZSTD_FROM: Final = 10  # KIP-110: older clients cannot unpack it
_RACK_FROM: Final = 11  # KIP-392
_REPLICA_STATE_FROM: Final = 15  # KIP-903
_SET_SIZES_TO: Final = (
    2  # KIP-74: from 3 on the first batch comes whole, however long, so that a consumer gets on
)
_OLD_FORMATS_TO: Final = 3  # KIP-98: from 4 on clients read batches of format 2

# Kafka lets these wait with the others, so that a consumer with old metadata does not spin.
_PATIENT = (UnknownTopicOrPartitionError, UnknownTopicIdError, TopicAuthorizationError)


class FetchReading:
    """The reads of one request, made once or once more after waiting.

    Attributes:
        reader: who reads.
        incremental: whether a session knows what was told before; of a partition about which there is nothing
            new no answer is made then.
        whole: all partitions that are to be read, be it piece by piece.
        watched: partitions that the first read has read, or had nothing to read of; they are looked at while
            the request waits. One with an error is answered by the first read.
        answers: what the read that is going on, or the last one, has found so far.
        total: bytes of records in them.
        is_urgent: whether there is one that must go out now.
        converting: those whose records are to be converted first.
    """

    __slots__ = (
        "_allowed",
        "_broker",
        "_broker_epoch",
        "_context",
        "_max_bytes",
        "_rack",
        "_throttle",
        "_times",
        "_version",
        "answers",
        "converting",
        "incremental",
        "is_urgent",
        "reader",
        "total",
        "watched",
        "whole",
    )

    def __init__(self, context: RequestContext, request: FetchRequest, max_bytes: int) -> None:
        """
        Args:
            context, request: what is asked, and by whom.
            max_bytes: the request's, within the broker's bounds.
        """
        self._context = context
        self._broker = context.broker
        self._version = version = context.api_version
        self._max_bytes = max_bytes
        has_state = version >= _REPLICA_STATE_FROM
        replica_id = request.replica_state.replica_id if has_state else request.replica_id
        self._broker_epoch = request.replica_state.replica_epoch if has_state else NO_EPOCH
        self.reader = reader_of(replica_id, request.isolation_level, version)
        self._rack = ""
        self._throttle: ReplicationQuota | None = None
        if replica_id >= 0:
            context.is_follower = True
            # Of what followers get alone, and only while the throttle is for some replica.
            quota = self._broker.replicas.quotas.leader
            self._throttle = None if quota.is_idle else quota
        elif version >= _RACK_FROM and request.rack_id and self._broker.replicas.replica_selector is not None:
            # Where nobody chooses a replica no rack counts.
            self._rack = request.rack_id
        self.incremental = False
        self.whole: Sequence[FetchedPartition] = ()
        self._times: dict[str | None, int] | None = None
        """Partitions per topic, made when the audit log first asks: without an authorizer nobody does."""
        self.watched: list[FetchedPartition] = []
        self.begin()

    def begin(self) -> None:
        """Forget what the read before has found."""
        self.answers: Answers = []
        self.total = 0
        self.is_urgent = False
        self.converting: list[ToConvert] = []
        self._allowed: dict[str, bool] = {}
        """Decisions by topic, of one read alone: an ACL may be taken away while the request waits."""

    def read(self, partitions: Iterable[FetchedPartition], *, first: bool) -> None:
        """Read some partitions.

        Args:
            partitions: which.
            first: not again, after having waited: they are counted, a follower's progress is noted, and what
                is in order will be watched.
        """
        reader, incremental, answers = self.reader, self.incremental, self.answers
        asks = self._broker.authorizer is not None
        for partition in partitions:
            try:
                if asks:
                    self._require_allowed(partition.topic or self._name(partition))
                # A session keeps the replica that it has looked up. One that was taken out leads and follows
                # nobody; the name may mean another by now.
                replica = partition.replica
                if replica is None or replica.leader_id < 0:
                    replica = self._find(partition)
                if first:
                    # Before the read: the offset that a follower asks for says what it has. That may raise
                    # the high watermark, which goes back with this answer.
                    if reader.replica_id >= 0:
                        note_follower(
                            replica,
                            partition.fetch_partition,
                            reader.replica_id,
                            self._context.now_ms,
                            self._broker_epoch,
                        )
                    # As of before the read, so that what is appended from now on counts as arrived.
                    partition.found_bytes = 0
                    partition.appended_bytes = replica.appended_bytes
                if self._rack and (answer := self._elsewhere(partition, replica)) is not None:
                    answers.append((partition, answer))
                    continue
                if (
                    incremental
                    and partition.high_watermark == replica.log.high_watermark
                    and partition.log_start_offset == replica.log.log_start_offset
                ):
                    # Most of a session's partitions have nothing new: this look is all that they cost.
                    end = readable_end(replica, partition.fetch_partition, reader)
                    if end is not None and partition.fetch_partition.fetch_offset >= end:
                        if first:
                            self.watched.append(partition)
                        continue
                answer = self._read_one(partition, replica)
                if first:
                    partition.found_bytes = len(answer.records or b"")
                    self.watched.append(partition)
            except KafkaError as error:
                self.is_urgent = self.is_urgent or not isinstance(error, _PATIENT)
                answer = error_answer(partition.fetch_partition.partition, error.code, self._version)
            except Exception as error:
                self.is_urgent = True
                answer = self._unforeseen(partition, error)
            answers.append((partition, answer))
        if first:
            self._count(partitions)

    def has_arrived(self, partition: FetchedPartition) -> int | None:
        """Return how many bytes of a watched partition there are by now, judged without reading.

        Returns:
            The bytes; None where the answer is to go out at once (Kafka's `DelayedFetch.tryComplete`).
        """
        replica, fetch_partition = partition.replica, partition.fetch_partition
        # A replica that knows of no leader may still be read by consumers (KIP-392); one that the manager
        # does not know any more is gone.
        if replica is None or (
            replica.leader_id < 0 and self._broker.replicas.find(*replica.key) is not replica
        ):
            return None
        try:
            end = readable_end(replica, fetch_partition, self.reader)
        except Exception:  # whatever it is, reading meets it too, and says so
            return None
        if end is None:
            return None
        if end <= fetch_partition.fetch_offset or self._is_held_back(replica):
            return 0
        if end == partition.seen_end:
            # Nothing more has become visible, whatever was appended.
            return min(fetch_partition.partition_max_bytes, partition.found_bytes)
        # By the bytes that were appended, as to find out what of them is visible would take a search.
        return min(
            fetch_partition.partition_max_bytes,
            partition.found_bytes + replica.appended_bytes - partition.appended_bytes,
        )

    def watch(self, start: int = 0) -> int:
        """Note how far each watched partition is visible, so that `has_arrived` can tell what has come since.

        It is called before anything else happens to them. Where more follows in a later segment, which no
        read goes on to, the answer becomes urgent.

        Args:
            start: the first of the watched partitions that has not been noted.

        Returns:
            How many bytes of these are visible, whether or not the read had room for them. As in Kafka each
            partition counts up to its maximum. What a throttle holds back does not count: it is read again
            when the request's time has run out.
        """
        total = 0
        for partition in self.watched[start:]:
            replica, fetch_partition = partition.replica, partition.fetch_partition
            assert replica is not None
            partition.seen_end = end = visible_end(replica.log, self.reader.isolation)
            if fetch_partition.fetch_offset < end and not self._is_held_back(replica):
                self._find_visible(partition, replica, end)
                total += min(fetch_partition.partition_max_bytes, partition.found_bytes)
            if end < replica.log.log_end_offset:
                # What is here already arrives when it becomes visible, without a byte more: it counts as if
                # the maximum had been appended.
                partition.appended_bytes -= fetch_partition.partition_max_bytes
        return total

    def _find_visible(self, partition: FetchedPartition, replica: Partition, end: int) -> None:
        """Find out how much of a partition is visible, of which the read may have had room for a part."""
        try:
            visible_bytes = replica.log.bytes_between(partition.fetch_partition.fetch_offset, end)
        except KafkaError:
            visible_bytes = None  # the next fetch is told
        if visible_bytes is None:
            self.is_urgent = True
        else:
            partition.found_bytes = max(partition.found_bytes, visible_bytes)

    # ------------------------------------------------------------------ one partition

    def _is_held_back(self, replica: Partition) -> bool:
        """Return whether the throttle keeps a partition's records from this follower now; never from one in
        sync, as producers with acks=all wait for it (KIP-73; `ReplicaManager.shouldLeaderThrottle`).
        """
        quota = self._throttle
        return (
            quota is not None
            and self.reader.replica_id not in replica.isr
            and quota.is_throttled(replica.key)
            and quota.is_exceeded
        )

    def _name(self, partition: FetchedPartition) -> str:
        """Look up the name of a topic whose id was not known here before.

        Raises:
            UnknownTopicIdError: it still is not.
        """
        partition.topic = self._broker.image.topic_name(partition.topic_id)
        if partition.topic is None:
            raise UnknownTopicIdError("no topic has this id")
        return partition.topic

    def _find(self, partition: FetchedPartition) -> Partition:
        """Look up the partition that is meant here by a name, or by a topic id.

        Raises:
            UnknownTopicIdError: as `_name`.
            InconsistentTopicIdError: the partition here is of another topic of that name.
            KafkaError: as `ReplicaManager.get`.
        """
        # Kept only if its topic's id is that of the request: a topic of the same name may be another one.
        partition.replica = None
        replica = self._broker.replicas.get(
            partition.topic or self._name(partition), partition.fetch_partition.partition
        )
        if partition.topic_id is not ZERO_UUID:
            replica.require_topic_id(partition.topic_id)
        partition.replica = replica
        return replica

    def _elsewhere(self, partition: FetchedPartition, replica: Partition) -> PartitionData | None:
        """Send a consumer to a nearer replica (KIP-392); None where there is none.

        Raises:
            FencedLeaderEpochError, UnknownLeaderEpochError: as `check_leader_epoch`.
        """
        offset, context = partition.fetch_partition.fetch_offset, self._context
        preferred = self._broker.replicas.preferred_read_replica(
            replica, offset, self._rack, context.listener_name, context.now_ms
        )
        if preferred < 0:
            return None
        # With an old epoch the consumer is to look its metadata up first (KIP-320).
        replica.check_leader_epoch(partition.fetch_partition.current_leader_epoch)
        # Nothing is read, and to wait for records here would only keep it from going there.
        self.is_urgent = True
        log = replica.log
        return PartitionData(
            partition_index=replica.index,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=[] if self.reader.isolation == Isolation.READ_COMMITTED else None,
            preferred_read_replica=preferred,
            records=b"",
        )

    def _read_one(self, partition: FetchedPartition, replica: Partition) -> PartitionData:
        """Read within what the request leaves room for, and note what that means for the whole.

        Raises:
            UnsupportedCompressionTypeError: the topic is compressed with zstd, which this version has not.
            UnsupportedVersionError: as `_bring_to_old_format`.
            KafkaError: as `read_partition`.
        """
        version = self._version
        # An answer without records all the same: a follower has to hear of the high watermark.
        is_held_back = self._throttle is not None and self._is_held_back(replica)
        room = (
            0
            if is_held_back
            else min(partition.fetch_partition.partition_max_bytes, self._max_bytes - self.total)
        )
        answer = read_partition(
            replica,
            partition.fetch_partition,
            self.reader,
            room,
            min_one_batch=not self.total and version > _SET_SIZES_TO and not is_held_back,
            range_from=RANGE_FROM_BYTES,
        )
        if version < _ZSTD_FROM:
            # By the topic's config, as in Kafka's `maybeConvertFetchedData`: in a topic that leaves the codec
            # to producers nobody looks for it.
            if answer.records and replica.log.config.compression_type == "zstd":
                raise UnsupportedCompressionTypeError(f"zstd needs Fetch {_ZSTD_FROM}")
            if version <= _OLD_FORMATS_TO:
                self._bring_to_old_format(partition, replica, answer, room)
        if answer.diverging_epoch.epoch >= 0:
            # Nothing arrives for a follower before it has cut its log (KIP-595).
            self.is_urgent = True
        self.total += len(answer.records)
        return answer

    def _bring_to_old_format(
        self, partition: FetchedPartition, replica: Partition, answer: PartitionData, room: int
    ) -> None:
        """Convert an answer of versions 0 to 3, or cut off what is too large for its reader.

        Raises:
            UnsupportedVersionError: the records may be too new, and must not be converted.
        """
        config, magic = replica.log.config, magic_for(self._version)
        # A follower of an old release gets what it can store, whatever the config says: else it would copy no
        # more, and leave the ISR.
        converts = config.message_downconversion_enable or self.reader.replica_id >= 0
        if not converts and config.record_magic > magic:
            raise UnsupportedVersionError("message.downconversion.enable is false")
        if not answer.records:
            answer.records = self._beginning(partition, replica, room)
        elif converts and not is_as_old(answer.records, magic):
            self.converting.append(ToConvert(answer, replica, partition.fetch_partition.fetch_offset, magic))

    def _beginning(self, partition: FetchedPartition, replica: Partition, room: int) -> Any:
        """The beginning of a first batch that is too large, for versions 0 to 2; nothing if there is none."""
        if self._version > _SET_SIZES_TO or room <= 0:
            return b""
        records: Any = read_partition(
            replica,
            partition.fetch_partition,
            self.reader,
            0,
            min_one_batch=True,
            range_from=RANGE_FROM_BYTES,
        ).records
        if len(records) <= room:
            return b""
        return cut_off(records, room, not is_as_old(records, magic_for(self._version)))

    def _require_allowed(self, topic: str) -> None:
        """Check that the principal may read a topic; the authorizer is asked once for each.

        Raises:
            TopicAuthorizationError: it may not.
        """
        allowed = self._allowed.get(topic)
        if allowed is None:
            if self.reader.replica_id >= 0:
                allowed = self._context.authorize(Operation.CLUSTER_ACTION, CLUSTER)
            else:
                allowed = self._context.may_read(topic, self._times_of)
            self._allowed[topic] = allowed
        if not allowed:
            raise TopicAuthorizationError(f"{topic} may not be read")

    def _times_of(self, topic: str) -> int:
        """Count the partitions of a topic; for the audit log, which has Kafka's number."""
        times = self._times
        if times is None:
            times = self._times = dict(Counter(partition.topic for partition in self.whole))
        return times.get(topic, 1)

    def _unforeseen(self, partition: FetchedPartition, error: Exception) -> PartitionData:
        """Log an exception that nobody expects; the others' answers are not lost by it."""
        repeats.log(
            logging.ERROR,
            (partition.topic, partition.fetch_partition.partition, type(error)),
            "fetch failed topic=%s partition=%d",
            partition.topic,
            partition.fetch_partition.partition,
            exc_info=error,
        )
        # Alone, as in Kafka's `readFromLog`: what is a `KafkaError` here is foreseen there, too.
        metrics = self._broker.metrics.topics
        metrics.all.failed_fetch_requests += 1
        if partition.replica is not None:
            metrics.of(partition.replica.topic).failed_fetch_requests += 1
        return error_answer(
            partition.fetch_partition.partition, ErrorCode.UNKNOWN_SERVER_ERROR, self._version
        )

    def _count(self, partitions: Iterable[FetchedPartition]) -> None:
        """Count what was asked for and is in the cluster, here or not (Kafka's `fetchMessages`); metrics are
        looked up once for each run of a topic.
        """
        topic: str | None = None
        count = 0
        for partition in partitions:
            replica = partition.replica
            name = partition.topic if replica is None else replica.topic
            if name is not topic:
                self._count_of(topic, count)
                topic, count = name, 0
            if replica is not None or self._is_of_others(partition):
                count += 1
        self._count_of(topic, count)

    def _count_of(self, topic: str | None, count: int) -> None:
        # What may not be read has been refused before (Kafka's `KafkaApis`), also where a session knows the
        # replica.
        if topic is not None and count and self._allowed.get(topic, True):
            table = self._broker.metrics.topics
            table.of(topic).total_fetch_requests += count
            table.all.total_fetch_requests += count

    def _is_of_others(self, partition: FetchedPartition) -> bool:
        name, index = partition.topic, partition.fetch_partition.partition
        return name is not None and self._broker.image.partition(name, index) is not None

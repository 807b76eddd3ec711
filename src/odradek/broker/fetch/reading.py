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

log = logging.getLogger(__name__)
repeats = Repeats(log)

RANGE_FROM_BYTES = 256 * 1024
"""From how many bytes of a partition on the kernel sends them. Measured: below, reading them into memory that
is there already and writing them costs less than waiting for the socket to take each piece of a file."""

_ZSTD_FROM: Final = 10
_RACK_FROM: Final = 11
_REPLICA_STATE_FROM: Final = 15
_SET_SIZES_TO: Final = 2
_OLD_FORMATS_TO: Final = 3

# Kafka lets these wait with the others, so that a consumer with old metadata does not spin.
_PATIENT = (UnknownTopicOrPartitionError, UnknownTopicIdError, TopicAuthorizationError)


class FetchReading:
    """The reads of one request, made once or once more after waiting.

    Attributes:
        reader: who reads.
        incremental: whether a session knows what was told before; of a partition about which there is nothing
            new no answer is made then.
        whole: all partitions that are to be read, be it piece by piece.
        watched: partitions that the first read found in order, to be looked at while the request waits.
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
            # Of what followers get alone, and only while the throttle is for some replica.
            quota = self._broker.replicas.quotas.leader
            self._throttle = None if quota.is_idle else quota
        elif version >= _RACK_FROM and request.rack_id and self._broker.replicas.replica_selector is not None:
            # Where nobody chooses a replica no rack counts.
            self._rack = request.rack_id
        self.incremental = False
        self.whole: Sequence[FetchedPartition] = ()
        self._times: dict[str | None, int] | None = None
        self.watched: list[FetchedPartition] = []
        self.begin()

    def begin(self) -> None:
        """Forget what the read before has found."""
        self.answers: Answers = []
        self.total = 0
        self.is_urgent = False
        self.converting: list[ToConvert] = []
        self._allowed: dict[str, bool] = {}

    def read(self, partitions: Iterable[FetchedPartition], *, first: bool) -> None:
        """Read some partitions.

        Args:
            partitions: which.
            first: not again, after having waited: they are counted, a follower's progress is noted, and what
                is in order will be watched.
        """
        reader, incremental, answers = self.reader, self.incremental, self.answers
        asks = self._broker.authorizer is not None
        for one in partitions:
            try:
                if asks:
                    self._require_allowed(one.topic or self._name(one))
                replica = one.replica
                if replica is None or replica.leader_id < 0:
                    replica = self._find(one)
                if first:
                    if reader.replica_id >= 0:
                        note_follower(
                            replica,
                            one.wanted,
                            reader.replica_id,
                            self._context.now_ms,
                            self._broker_epoch,
                        )
                    one.found_bytes = 0
                    one.appended_bytes = replica.appended_bytes
                if self._rack and (answer := self._elsewhere(one, replica)) is not None:
                    answers.append((one, answer))
                    continue
                if (
                    incremental
                    and one.high_watermark == replica.log.high_watermark
                    and one.log_start_offset == replica.log.log_start_offset
                ):
                    # Most of a session's partitions have nothing new: this look is all that they cost.
                    end = readable_end(replica, one.wanted, reader)
                    if end is not None and one.wanted.fetch_offset >= end:
                        if first:
                            self.watched.append(one)
                        continue
                answer = self._read_one(one, replica)
                if first:
                    one.found_bytes = len(answer.records or b"")
                    self.watched.append(one)
            except KafkaError as error:
                self.is_urgent = self.is_urgent or not isinstance(error, _PATIENT)
                answer = error_answer(one.wanted.partition, error.code, self._version)
            except Exception as error:
                self.is_urgent = True
                answer = self._unforeseen(one, error)
            answers.append((one, answer))
        if first:
            self._count(partitions)

    def has_arrived(self, one: FetchedPartition) -> int | None:
        """Return how many bytes of a watched partition there are by now, judged without reading.

        Returns:
            The bytes; None where the answer is to go out at once.
        """
        replica, wanted = one.replica, one.wanted
        if replica is None or (
            replica.leader_id < 0 and self._broker.replicas.find(*replica.key) is not replica
        ):
            return None
        try:
            end = readable_end(replica, wanted, self.reader)
        except Exception:  # whatever it is, reading meets it too, and says so
            return None
        if end is None:
            return None
        if end <= wanted.fetch_offset or self._is_held_back(replica):
            return 0
        if end == one.seen_end:
            # Nothing more has become visible, whatever was appended.
            return min(wanted.partition_max_bytes, one.found_bytes)
        return min(wanted.partition_max_bytes, one.found_bytes + replica.appended_bytes - one.appended_bytes)

    def watch(self, start: int = 0) -> int:
        """Get ready to be asked what `has_arrived` of what is watched; before anything else happens to it.

        Args:
            start: which of the watched partitions is the first that was not got ready before.

        Returns:
            How many bytes of these are visible, be it that the read had no room for them: as in Kafka each
            partition counts up to its maximum. It does not wait where more follows in a later segment, which
            no read goes on to. What a throttle holds back does not count: it is looked for again when the
            request's time has run out.
        """
        total = 0
        for one in self.watched[start:]:
            replica, wanted = one.replica, one.wanted
            assert replica is not None
            one.seen_end = end = visible_end(replica.log, self.reader.isolation)
            if wanted.fetch_offset < end and not self._is_held_back(replica):
                self._find_visible(one, replica, end)
                total += min(wanted.partition_max_bytes, one.found_bytes)
            if end < replica.log.log_end_offset:
                # What is here already arrives when it becomes visible.
                one.appended_bytes -= wanted.partition_max_bytes
        return total

    def _find_visible(self, one: FetchedPartition, replica: Partition, end: int) -> None:
        """Find out how much of a partition is visible, of which the read may have had room for a part."""
        try:
            found = replica.log.bytes_between(one.wanted.fetch_offset, end)
        except KafkaError:
            found = None  # the next fetch is told
        if found is None:
            self.is_urgent = True
        else:
            one.found_bytes = max(one.found_bytes, found)

    # ------------------------------------------------------------------ one partition

    def _is_held_back(self, replica: Partition) -> bool:
        """Return whether the throttle keeps a partition's records from this follower now; never from one in
        sync.
        """
        quota = self._throttle
        return (
            quota is not None
            and self.reader.replica_id not in replica.isr
            and quota.is_throttled(replica.key)
            and quota.is_exceeded
        )

    def _name(self, one: FetchedPartition) -> str:
        """Look up the name of a topic whose id was not known here before.

        Raises:
            UnknownTopicIdError: it still is not.
        """
        one.topic = self._broker.image.topic_name(one.topic_id)
        if one.topic is None:
            raise UnknownTopicIdError("no topic has this id")
        return one.topic

    def _find(self, one: FetchedPartition) -> Partition:
        """Look up what a partition's name means here.

        Raises:
            UnknownTopicIdError, InconsistentTopicIdError, and what `Replicas.get` raises.
        """
        one.replica = None
        replica = self._broker.replicas.get(one.topic or self._name(one), one.wanted.partition)
        if one.topic_id is not ZERO_UUID:
            replica.require_topic_id(one.topic_id)
        one.replica = replica
        return replica

    def _elsewhere(self, one: FetchedPartition, replica: Partition) -> PartitionData | None:
        """Send a consumer to a nearer replica (KIP-392); None where there is none.

        Raises:
            FencedLeaderEpochError, UnknownLeaderEpochError.
        """
        offset, context = one.wanted.fetch_offset, self._context
        preferred = self._broker.replicas.preferred_read_replica(
            replica, offset, self._rack, context.listener_name, context.now_ms
        )
        if preferred < 0:
            return None
        replica.check_leader_epoch(one.wanted.current_leader_epoch)
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

    def _read_one(self, one: FetchedPartition, replica: Partition) -> PartitionData:
        """Read within what the request leaves room for, and note what that means for the whole.

        Raises:
            UnsupportedCompressionTypeError, UnsupportedVersionError, and what `read_partition` raises.
        """
        version = self._version
        is_held_back = self._throttle is not None and self._is_held_back(replica)
        room = 0 if is_held_back else min(one.wanted.partition_max_bytes, self._max_bytes - self.total)
        answer = read_partition(
            replica,
            one.wanted,
            self.reader,
            room,
            min_one_batch=not self.total and version > _SET_SIZES_TO and not is_held_back,
            range_from=RANGE_FROM_BYTES,
        )
        if version < _ZSTD_FROM:
            if answer.records and replica.log.config.compression_type == "zstd":
                raise UnsupportedCompressionTypeError(f"zstd needs Fetch {_ZSTD_FROM}")
            if version <= _OLD_FORMATS_TO:
                self._bring_to_old_format(one, replica, answer, room)
        if answer.diverging_epoch.epoch >= 0:
            self.is_urgent = True
        self.total += len(answer.records)
        return answer

    def _bring_to_old_format(
        self, one: FetchedPartition, replica: Partition, answer: PartitionData, room: int
    ) -> None:
        """Have an answer of versions 0 to 3 converted, or cut off what is too large for its reader.

        Raises:
            UnsupportedVersionError: the records may be too new, and must not be converted.
        """
        config, magic = replica.log.config, magic_for(self._version)
        converts = config.message_downconversion_enable or self.reader.replica_id >= 0
        if not converts and config.record_magic > magic:
            raise UnsupportedVersionError("message.downconversion.enable is false")
        if not answer.records:
            answer.records = self._beginning(one, replica, room)
        elif converts and not is_as_old(answer.records, magic):
            self.converting.append(ToConvert(answer, replica, one.wanted.fetch_offset, magic))

    def _beginning(self, one: FetchedPartition, replica: Partition, room: int) -> Any:
        """The beginning of a first batch that is too large, for versions 0 to 2; nothing if there is none."""
        if self._version > _SET_SIZES_TO or room <= 0:
            return b""
        records: Any = read_partition(
            replica, one.wanted, self.reader, 0, min_one_batch=True, range_from=RANGE_FROM_BYTES
        ).records
        if len(records) <= room:
            return b""
        return cut_off(records, room, not is_as_old(records, magic_for(self._version)))

    def _require_allowed(self, topic: str) -> None:
        """Raise `TopicAuthorizationError` unless the principal may read; asks once for each topic."""
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
            times = self._times = dict(Counter(one.topic for one in self.whole))
        return times.get(topic, 1)

    def _unforeseen(self, one: FetchedPartition, error: Exception) -> PartitionData:
        """Log an exception that nobody expects; the others' answers are not lost by it."""
        repeats.log(
            logging.ERROR,
            (one.topic, one.wanted.partition, type(error)),
            "fetch failed topic=%s partition=%d",
            one.topic,
            one.wanted.partition,
            exc_info=error,
        )
        metrics = self._broker.metrics.topics
        metrics.all.failed_fetch_requests += 1
        if one.replica is not None:
            metrics.of(one.replica.topic).failed_fetch_requests += 1
        return error_answer(one.wanted.partition, ErrorCode.UNKNOWN_SERVER_ERROR, self._version)

    def _count(self, partitions: Iterable[FetchedPartition]) -> None:
        """Count what was asked for and is here; metrics are looked up once for each run of a topic."""
        table = self._broker.metrics.topics
        topic: str | None = None
        count = 0
        for one in partitions:
            replica = one.replica
            if replica is None:
                continue
            if replica.topic is not topic:
                if topic is not None:
                    table.of(topic).total_fetch_requests += count
                    table.all.total_fetch_requests += count
                topic, count = replica.topic, 0
            count += 1
        if topic is not None:
            table.of(topic).total_fetch_requests += count
            table.all.total_fetch_requests += count

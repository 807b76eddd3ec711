"""Committing, fetching, expiring and deleting offsets.

Who may commit:

    generation -1, no member id     somebody outside of any membership (an administrator, a consumer that
                                    assigns partitions to itself): only while the group is Empty; makes the
                                    group if it does not exist
    a member of the generation      unless the group waits for its assignment: REBALANCE_IN_PROGRESS
    anybody else                    ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID

Within a transaction (TxnOffsetCommit) two more may commit: whoever says nothing of a membership, whatever the
group does, because producers before KIP-447 could not say more; and a member that waits for its assignment.

When an offset expires (KIP-211): with an explicit retention, when that is over. Otherwise
`offsets.retention.minutes` after the group became Empty (or, not knowing when, after the commit); for a group
that only stores offsets, after the commit; for a Stable consumer group, after the commit if no member
subscribes to the topic any more. Never while a transaction holds the partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from odradek.coordinators.groups.classic_group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from odradek.coordinators.groups.commit_answers import PartitionError, answer_topic
from odradek.coordinators.groups.env import GroupEnv
from odradek.coordinators.groups.offset_store import OffsetEntry, OffsetStore
from odradek.coordinators.groups.rebalance import restart_session
from odradek.coordinators.groups.records import offset_record
from odradek.coordinators.groups.states import GroupState
from odradek.coordinators.outcome import CoordinatorRecord, Outcome, Producer
from odradek.errors import (
    CoordinatorNotAvailableError,
    ErrorCode,
    GroupIdNotFoundError,
    GroupNotEmptyError,
    IllegalGenerationError,
    InvalidPidMappingError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from odradek.wire.epochs import NO_EPOCH
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from odradek.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from odradek.wire.primitives import ZERO_UUID

NO_OFFSET = -1
"""In a response: nothing is committed, which is no error."""
_LAST_TIMESTAMP_MS = 2**63 - 1


def check_commit(
    group: ClassicGroup,
    member_id: str,
    group_instance_id: str | None,
    generation: int,
    *,
    transactional: bool = False,
) -> None:
    """Refuse a commit that the table above does not allow now.

    Raises:
        KafkaError: see the table above.
    """
    if group.state is GroupState.DEAD:
        raise CoordinatorNotAvailableError
    empty = group.state is GroupState.EMPTY
    # Kafka's "simple consumer": with nobody in the group there is nobody whose offsets it could overwrite.
    if generation < 0 and empty:
        return
    if generation >= 0 or member_id or group_instance_id is not None:
        group.check_member(member_id, group_instance_id)
        # Older: a zombie of before the last rebalance, whose partitions others have by now.
        if generation != group.generation:
            raise IllegalGenerationError
    elif not empty and not transactional:
        raise UnknownMemberIdError
    if group.state is GroupState.COMPLETING_REBALANCE and not transactional:
        # Its id and generation are right: it has heard of the generation but not of its assignment.
        raise RebalanceInProgressError


def commit(env: GroupEnv, group: ClassicGroup, request: OffsetCommitRequest) -> Outcome:
    """Store offsets; partitions whose metadata is too long are refused one by one.

    Raises:
        KafkaError: the whole request is refused.
    """
    check_commit(group, request.member_id, request.group_instance_id, request.generation_id_or_member_epoch)
    member = group.members.get(request.member_id)
    if member is not None:
        # A member that commits is alive.
        restart_session(env, group, member)
    now_ms = env.clock.now_ms()
    retention_ms = request.retention_time_ms
    # "For ever" is often said as the largest retention there is; the sum must stay a timestamp.
    expires_ms = None if retention_ms == -1 else min(now_ms + retention_ms, _LAST_TIMESTAMP_MS)
    records: list[CoordinatorRecord] = []
    topics = [
        answer_topic(topic, _store(env, request.group_id, topic, records, now_ms, expires_ms))
        for topic in request.topics
    ]
    return Outcome(records, OffsetCommitResponse(topics=topics))


def commit_in_transaction(env: GroupEnv, group: ClassicGroup, request: TxnOffsetCommitRequest) -> Outcome:
    """Store offsets that count when the producer's transaction is committed; see `commit`.

    Raises:
        InvalidPidMappingError: there is no such producer.
    """
    # Kafka refuses it only where verification is on; without a producer no marker would ever end it.
    if request.producer_id < 0 or request.producer_epoch < 0:
        raise InvalidPidMappingError
    check_commit(
        group,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        transactional=True,
    )
    # The session is left as it is: a transaction's commit comes from a producer, and does not say that the
    # consumer lives. Kafka: `OffsetMetadataManager.commitTransactionalOffset`.
    now_ms = env.clock.now_ms()
    records: list[CoordinatorRecord] = []
    topics = [
        answer_topic(topic, _store(env, request.group_id, topic, records, now_ms)) for topic in request.topics
    ]
    producer = Producer(request.producer_id, request.producer_epoch)
    return Outcome(records, TxnOffsetCommitResponse(topics=topics), producer=producer)


def _store(
    env: GroupEnv,
    group_id: str,
    topic: OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic,
    records: list[CoordinatorRecord],
    now_ms: int,
    expires_ms: int | None = None,
) -> list[PartitionError]:
    """Add a topic's offsets to the records to be written; returns the error of each partition."""
    errors: list[PartitionError] = []
    for partition in topic.partitions:
        error = ErrorCode.NONE
        if metadata_too_long(partition.committed_metadata, env.config.offset_metadata_max_bytes):
            error = ErrorCode.OFFSET_METADATA_TOO_LARGE
        else:
            entry = _entry(partition, now_ms, expires_ms)
            records.append(offset_record(group_id, topic.name, partition.partition_index, entry))
        errors.append((partition.partition_index, error))
    return errors


def metadata_too_long(metadata: str | None, limit: int) -> bool:
    """Return whether a commit's note is longer than `limit`, in Java's count of UTF-16 units."""
    if not metadata:
        return False
    # Characters beyond 16 bits count twice in Java; most notes are far from the limit and need no encoding.
    if len(metadata) > limit:
        return True
    return 2 * len(metadata) > limit and len(metadata.encode("utf-16-le", "surrogatepass")) // 2 > limit


def _entry(
    partition: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
    now_ms: int,
    expires_ms: int | None,
) -> OffsetEntry:
    at_ms = now_ms
    if isinstance(partition, OffsetCommitRequestPartition) and partition.commit_timestamp != -1:
        # Version 1 lets the client say when.
        at_ms = partition.commit_timestamp
    return OffsetEntry(
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata or "",
        at_ms,
        expires_ms,
    )


def fetch(
    offsets: OffsetStore,
    group_exists: bool,
    request: OffsetFetchRequestGroup,
    *,
    require_stable: bool,
    only_committed: bool = False,
) -> OffsetFetchResponseGroup:
    """The offsets asked for, -1 where none is committed; all of the group's for a null list of topics.

    Args:
        offsets: the shard's offsets.
        group_exists: whether the group exists; a group that does not has no offsets, which is no error.
        request: the group and the partitions.
        require_stable: answer UNSTABLE_OFFSET_COMMIT where a transaction is open (KIP-447).
        only_committed: leave out the partitions, and topics, without a committed offset.
    """
    group_id = request.group_id
    committed = offsets.of_group(group_id) if group_exists else {}
    requested: Iterable[tuple[str, bytes, Iterable[int]]]
    if request.topics is None:
        requested = [(topic, ZERO_UUID, partitions) for topic, partitions in committed.items()]
    else:
        requested = [(topic.name, topic.topic_id, topic.partition_indexes) for topic in request.topics]
    topics: list[OffsetFetchResponseTopics] = []
    for name, topic_id, partitions in requested:
        of_topic = committed.get(name, {})
        results: list[OffsetFetchResponsePartitions] = []
        for partition in partitions:
            entry = of_topic.get(partition)
            if entry is None and only_committed:
                continue
            error = ErrorCode.NONE
            # What is committed may be replaced when the transaction ends: the consumer asks again.
            if require_stable and offsets.is_pending(group_id, name, partition):
                entry, error = None, ErrorCode.UNSTABLE_OFFSET_COMMIT
            results.append(
                OffsetFetchResponsePartitions(
                    partition_index=partition,
                    committed_offset=NO_OFFSET if entry is None else entry.offset,
                    committed_leader_epoch=NO_EPOCH if entry is None else entry.leader_epoch,
                    metadata="" if entry is None else entry.metadata,
                    error_code=error,
                )
            )
        if results or not only_committed:
            topics.append(OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=results))
    return OffsetFetchResponseGroup(group_id=group_id, topics=topics, error_code=ErrorCode.NONE)


# Expiry and deletion


def delete(offsets: OffsetStore, group: ClassicGroup, request: OffsetDeleteRequest) -> Outcome:
    """Remove offsets of a group, except of topics that its members still subscribe to (KIP-496).

    While a rebalance is under way it is not known what they will subscribe to: then of no topic at all.

    Raises:
        GroupIdNotFoundError: the group is going.
        GroupNotEmptyError: it has members that are no consumers; what they use is not known.
    """
    if group.state is GroupState.DEAD:
        raise GroupIdNotFoundError(f"Group {group.group_id} is in dead state.")
    consumers = group.protocol_type == CONSUMER_PROTOCOL_TYPE
    if group.state is not GroupState.EMPTY and not consumers:
        raise GroupNotEmptyError
    subscribed = group.subscribed_topics()
    records: list[CoordinatorRecord] = []
    topics: list[OffsetDeleteResponseTopic] = []
    for topic in request.topics:
        in_use = consumers if subscribed is None else topic.name in subscribed
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if in_use else ErrorCode.NONE
        results: list[OffsetDeleteResponsePartition] = []
        # A partition that was named twice is answered once; the order is the request's.
        for index in dict.fromkeys(partition.partition_index for partition in topic.partitions):
            results.append(OffsetDeleteResponsePartition(partition_index=index, error_code=error))
            # A tombstone takes out what a transaction has pending there as well.
            is_committed = offsets.get(group.group_id, topic.name, index) is not None
            if not in_use and (is_committed or offsets.is_pending(group.group_id, topic.name, index)):
                records.append(offset_record(group.group_id, topic.name, index, None))
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=results))
    return Outcome(records, OffsetDeleteResponse(topics=topics))


def _expiry_base(group: ClassicGroup) -> Callable[[OffsetEntry], int] | None:
    """From when an offset's retention counts; `None` while the group keeps its offsets.

    Kafka: `ClassicGroup.offsetExpirationCondition`.
    """
    # It only stores offsets: nothing but its commits shows that somebody uses it.
    if group.protocol_type is None:
        return lambda entry: entry.commit_timestamp_ms
    if group.state is GroupState.EMPTY:
        # From the end of its last member, so that a group that was stopped for a weekend keeps offsets that
        # it had committed long before (KIP-211).
        since = group.state_timestamp_ms
        return lambda entry: entry.commit_timestamp_ms if since is None else since
    # In a rebalance nobody knows what will be subscribed to, and other protocols tell nothing of topics.
    if group.state is GroupState.STABLE and group.protocol_type == CONSUMER_PROTOCOL_TYPE:
        return lambda entry: entry.commit_timestamp_ms
    return None


def expired(env: GroupEnv, group: ClassicGroup, offsets: OffsetStore) -> tuple[list[CoordinatorRecord], bool]:
    """Return which of a group's offsets have expired.

    Returns:
        Tombstones for the expired offsets, and whether the group has no offset left then, pending ones of
        transactions included.
    """
    group_id = group.group_id
    of_group = offsets.of_group(group_id)
    if not of_group:
        return [], not offsets.has_open_transactions(group_id)
    base = _expiry_base(group)
    if base is None:
        return [], False
    subscribed = group.subscribed_topics() if group.members else set()
    # What a member subscribes to is not known, so any topic may be in use.
    if subscribed is None:
        return [], False
    now_ms = env.clock.now_ms()
    retention_ms = env.config.offsets_retention_ms
    tombstones: list[CoordinatorRecord] = []
    left = False
    for topic, partitions in of_group.items():
        for partition, entry in partitions.items():
            if entry.expire_timestamp_ms is not None:
                over = now_ms >= entry.expire_timestamp_ms
            else:
                over = now_ms - base(entry) >= retention_ms
            if over and topic not in subscribed and not offsets.is_pending(group_id, topic, partition):
                tombstones.append(offset_record(group_id, topic, partition, None))
            else:
                left = True
    return tombstones, not left and not offsets.has_open_transactions(group_id)


def all_tombstones(offsets: OffsetStore, group_id: str) -> list[CoordinatorRecord]:
    """Tombstones for everything that a group has committed, pending offsets included."""
    return [offset_record(group_id, topic, p, None) for topic, p in offsets.keys_of_group(group_id)]


def tombstones_of_topics(
    offsets: OffsetStore, deleted: dict[str, set[int] | None]
) -> list[CoordinatorRecord]:
    """Tombstones for the offsets of deleted partitions, in all groups.

    Args:
        offsets: the shard's offsets.
        deleted: the partitions by topic; `None` for all of them.
    """
    return [
        offset_record(group_id, topic, partition, None)
        for group_id in offsets.group_ids()
        for topic, partition in offsets.keys_of_group(group_id)
        if topic in deleted and _within(partition, deleted[topic])
    ]


def _within(partition: int, partitions: set[int] | None) -> bool:
    return partitions is None or partition in partitions
